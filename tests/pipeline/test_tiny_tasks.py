"""The synthetic tasks: seeded, checked, heavy-tailed and kept apart by split."""

import dataclasses
import json
import statistics
from itertools import islice, pairwise
from pathlib import Path

import pytest

from eagle_tui.pipeline.tiny import FAMILIES
from eagle_tui.pipeline.tiny.tasks import (
    FORMATS,
    Instance,
    Message,
    catalog,
    check,
    generate,
    split_of,
    write_dataset,
)

SAMPLE = 200


def sample(
    family: str, seed: int = 11, split: str = "train", count: int = SAMPLE
) -> list[Instance]:
    return list(islice(generate(family, seed, split), count))


def demo(family: str, count: int) -> list[Instance]:
    return list(islice(generate(family, 3, "demo"), count))


def rows(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_bytes().split(b"\n") if line]


@pytest.mark.parametrize("family", FAMILIES)
def test_same_seed_gives_the_same_instances_and_another_seed_others(family: str) -> None:
    assert sample(family) == sample(family)
    assert sample(family) != sample(family, seed=12)


@pytest.mark.parametrize("family", FAMILIES)
def test_the_reference_answer_is_accepted(family: str) -> None:
    for instance in sample(family):
        assert check(instance, instance.content), instance


@pytest.mark.parametrize("family", FAMILIES)
def test_the_answer_of_another_instance_is_rejected(family: str) -> None:
    instances = sample(family)
    pairs = [
        (one, other)
        for one, other in pairwise(instances)
        if one.answer.casefold() not in other.content.casefold()
    ]
    assert len(pairs) > SAMPLE // 2
    for one, other in pairs:
        assert not check(one, other.content), (one, other.content)
        assert not check(one, "")


@pytest.mark.parametrize(
    ("family", "damage"),
    [
        ("arith", lambda text: text.replace(".", "1.")),
        ("count", lambda text: text.replace(".", "7.")),
        ("sort", lambda text: text.rsplit(", ", 1)[0]),
        ("strings", lambda text: text[:-1]),
        ("chat", lambda text: text[:1]),
    ],
)
def test_a_damaged_answer_is_rejected(family: str, damage) -> None:
    for instance in sample(family):
        assert not check(instance, damage(instance.content)), instance


def test_a_damaged_tool_call_is_rejected() -> None:
    calls = [instance for instance in sample("tools") if instance.kind in ("call", "calls")]
    assert len(calls) > SAMPLE // 3
    for instance in calls:
        assert not check(instance, instance.content.replace("</tool_call>", ""))
        assert not check(instance, instance.content.replace('"name": "', '"name": "x_'))
        assert not check(instance, instance.content.replace("{", "", 1))
        assert not check(instance, instance.content + "\n" + instance.content)


def test_no_prompt_is_in_two_splits() -> None:
    for family in FAMILIES:
        keys = {
            split: {instance.key for instance in sample(family, split=split)}
            for split in ("train", "eval", "demo")
        }
        assert all(len(found) == SAMPLE for found in keys.values())
        assert not keys["train"] & keys["eval"]
        assert not (keys["train"] | keys["eval"]) & keys["demo"]


def test_the_split_depends_on_the_prompt_alone() -> None:
    instance = sample("arith", count=1)[0]
    assert split_of(dataclasses.replace(instance, reasoning="other", content="other")) == "train"


def test_thoughts_are_heavy_tailed_and_those_of_sort_are_the_longest() -> None:
    sizes = {f: sorted(len(i.reasoning) for i in sample(f, count=1000)) for f in FAMILIES}
    medians = {family: statistics.median(found) for family, found in sizes.items()}
    assert max(medians, key=medians.__getitem__) == "sort"
    assert min(medians, key=medians.__getitem__) == "chat"
    for family in ("arith", "sort", "count", "strings", "tools"):
        assert sizes[family][-1] > 2.5 * medians[family]
    assert sizes["sort"][-1] > 6 * medians["sort"]


def test_an_unknown_family_and_an_unknown_format_are_named(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"no task family 'poetry'.*arith"):
        generate("poetry", 1, "train")
    with pytest.raises(ValueError, match=r"no dataset format 'csv'.*sharegpt"):
        write_dataset(tmp_path / "x.jsonl", "arith", 1, 1, "csv")


@pytest.mark.parametrize("fmt", FORMATS)
@pytest.mark.parametrize("family", ["strings", "chat"])
def test_a_dataset_has_the_asked_number_of_different_rows(
    tmp_path: Path, family: str, fmt: str
) -> None:
    path = tmp_path / "set.jsonl"
    assert write_dataset(path, family, 30, 3, fmt) == 30
    found = rows(path)
    assert len({json.dumps(row) for row in found}) == 30
    assert [child.name for child in tmp_path.iterdir()] == ["set.jsonl"]
    first = path.read_bytes()
    write_dataset(path, family, 30, 3, fmt)
    assert path.read_bytes() == first


@pytest.mark.parametrize("fmt", ["alpaca", "prompt"])
def test_a_format_without_tools_refuses_the_tools_family(tmp_path: Path, fmt: str) -> None:
    with pytest.raises(ValueError, match="cannot hold instances of the family 'tools'"):
        write_dataset(tmp_path / "x.jsonl", "tools", 1, 1, fmt)
    assert not list(tmp_path.iterdir())


def test_an_exhausted_family_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    only = sample("arith", count=1)[0]
    monkeypatch.setitem(
        catalog._CATALOG, "arith", catalog._Family(lambda rng: only, lambda instance, text: True)
    )
    with pytest.raises(ValueError, match="no more than 1 different prompts in the split 'train'"):
        sample("arith", count=2)


def test_a_bare_prompt_is_the_whole_prompt_of_its_split(tmp_path: Path) -> None:
    path = tmp_path / "set.jsonl"
    write_dataset(path, "arith", 50, 3, "prompt")
    for row in rows(path):
        message = Message("user", row["prompt"])
        assert split_of(Instance("arith", "", (message,), "", "", "")) == "demo"


def test_sharegpt_rows_carry_roles_and_tools_as_such_sets_do(tmp_path: Path) -> None:
    path = tmp_path / "set.jsonl"
    write_dataset(path, "tools", 40, 3, "sharegpt")
    found = rows(path)
    roles = {turn["from"] for row in found for turn in row["conversations"]}
    assert roles == {"system", "human", "gpt", "observation"}
    assert all(json.loads(row["tools"])[0]["parameters"] for row in found)
    assert all(row["conversations"][-1]["from"] != "gpt" for row in found)


def test_alpaca_rows_put_a_final_question_into_the_input(tmp_path: Path) -> None:
    path = tmp_path / "set.jsonl"
    write_dataset(path, "arith", 40, 3, "alpaca")
    found = rows(path)
    prompts = [i.messages[-1].content for i in demo("arith", 40)]
    assert [" ".join(filter(None, (r["instruction"], r["input"]))) for r in found] == prompts
    assert all(row["output"] == "" and row["instruction"] for row in found)
    inputs = [row["input"] for row in found]
    assert sum(text.endswith("?") for text in inputs) > 15
    assert inputs.count("") > 3


def test_full_rows_hold_the_thought_apart_or_in_its_tags(tmp_path: Path) -> None:
    path = tmp_path / "set.jsonl"
    write_dataset(path, "arith", 5, 3, "messages", answers=True)
    last = rows(path)[0]["messages"][-1]
    assert last["role"] == "assistant" and "=" in last["reasoning_content"]
    assert "<think>" not in last["content"]
    write_dataset(path, "arith", 5, 3, "sharegpt", answers=True)
    value = rows(path)[0]["conversations"][-1]["value"]
    assert value == f"<think>\n{last['reasoning_content']}\n</think>\n\n{last['content']}"
