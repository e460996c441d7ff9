"""Responses by order, dataset and text, in bounded looks, from files of any size."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eagle_tui.reader import responses, samples
from eagle_tui.records import SampleHead, SampleOrder, SamplePage, SampleQuery
from eagle_tui.rundir import flags
from eagle_tui.rundir.paths import RunDir


def row(id: str, dataset: str = "d", at: float = 0.0, tokens: int = 5, **parts: Any) -> bytes:
    """A line as the writer makes it."""
    body = {
        "id": id,
        "dataset": dataset,
        "state": "complete",
        "finish_reason": "stop",
        "usage": {"prompt_tokens": 3, "completion_tokens": tokens, "reasoning_tokens": 1},
        "endpoint": "e",
        "attempt": 1,
        "pieces": 1,
        "at": at,
        "flag": None,
        "prompt_ids": [1, 2, 3],
        "output_ids": [4] * tokens,
        "reasoning": "because",
        "content": f"answer {id}",
        "conversation": [{"role": "user", "content": f"question {id}"}],
        **parts,
    }
    return json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"


def run_with(root: Path, **files: bytes) -> RunDir:
    run = RunDir(root)
    for name, content in files.items():
        run.responses(name).parent.mkdir(parents=True, exist_ok=True)
        run.responses(name).write_bytes(content)
    return run


def pages(reader: samples.SampleReader, **query: Any) -> list[SamplePage]:
    found: list[SamplePage] = []
    cursor: dict[str, int] = {}
    while not found or not found[-1].done:
        found.append(reader.page(SampleQuery.model_validate({**query, "cursor": cursor})))
        assert found[-1].cursor != cursor or found[-1].done
        cursor = found[-1].cursor
    return found


def ids(found: list[SamplePage]) -> list[str]:
    return [head.id for page in found for head in page.heads]


def test_newest_of_all_datasets_by_time(tmp_path: Path) -> None:
    a = b"".join(row(f"a{n}", "a", at=2.0 * n) for n in range(20))
    b = b"".join(row(f"b{n}", "b", at=2.0 * n + 1) for n in range(20))
    reader = samples.SampleReader(run_with(tmp_path, a=a, b=b + b'{"id":"torn'))
    found = pages(reader, limit=7)
    assert ids(found) == [f"{'ba'[n % 2]}{19 - n // 2}" for n in range(40)]
    assert len(found[0].heads) == 7 and found[0].looked < found[0].total == found[-1].looked
    assert ids(pages(reader, dataset="a", limit=3)) == [f"a{n}" for n in range(19, -1, -1)]
    assert found[0].heads[0].title == "question b19"
    with pytest.raises(ValueError, match="no dataset"):
        reader.page(SampleQuery(dataset="c"))
    # A replay sees what was there then.
    then = reader.page(SampleQuery(), until=5.0)
    assert [h.id for h in then.heads] == ["b2", "a2", "b1", "a1", "b0", "a0"]


@pytest.mark.parametrize("order", ["truncated", "loop", "no_answer"])
def test_by_state(tmp_path: Path, order: SampleOrder) -> None:
    states = ["complete", "truncated", "loop", "no_answer"]
    content = b"".join(
        row(f"{n}", at=n, state=states[n % 4], content='"loop" "truncated" "no_answer"')
        for n in range(40)
    )
    reader = samples.SampleReader(run_with(tmp_path, d=content))
    found = ids(pages(reader, order=order))
    assert found == [str(n) for n in range(39, -1, -1) if states[n % 4] == order]


def test_the_longest_of_each_look(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = [(n * 37) % 101 for n in range(100)]
    content = b"".join(row(str(n), at=n, tokens=size) for n, size in enumerate(sizes))
    reader = samples.SampleReader(run_with(tmp_path, d=content))
    (page,) = pages(reader, order="longest", limit=5)
    assert [h.completion_tokens for h in page.heads] == sorted(sizes)[:-6:-1]
    # A look costs a bounded number of bytes; the cursor goes on where it ended.
    monkeypatch.setattr(samples, "LOOK", 5000)
    looks = pages(reader, order="longest", limit=100)
    assert len(looks) > 3
    heads: list[SampleHead] = [head for page in looks for head in page.heads]
    assert sorted(h.completion_tokens for h in heads) == sorted(sizes)


@given(
    texts=st.lists(st.text(max_size=12), min_size=1, max_size=8),
    asked=st.text(min_size=1, max_size=3),
)
def test_text_is_found_where_it_is_and_nowhere_else(
    tmp_path_factory: pytest.TempPathFactory, texts: list[str], asked: str
) -> None:
    texts = [t.encode("utf-8", "replace").decode() for t in texts]
    content = b"".join(
        row(str(n), at=n, content=t, reasoning="", conversation=[]) for n, t in enumerate(texts)
    )
    reader = samples.SampleReader(run_with(tmp_path_factory.mktemp("r"), d=content))
    found = set(ids(pages(reader, text=asked)))
    exact = {str(n) for n, text in enumerate(texts) if asked in text}
    folded = {str(n) for n, text in enumerate(texts) if asked.casefold() in text.casefold()}
    assert exact <= found <= folded


def test_text_is_looked_for_in_texts_not_in_ids(tmp_path: Path) -> None:
    content = row("1", content="a\nNEEDLE in \x1b[2J it") + row("2", output_ids=[123456])
    reader = samples.SampleReader(run_with(tmp_path, d=content))
    assert ids(pages(reader, text="needle IN")) == ["1"]
    assert ids(pages(reader, text="\x1b[2J")) == ["1"]
    assert ids(pages(reader, text="question 2")) == ["2"]
    assert ids(pages(reader, text="123456")) == []


def test_only_what_is_new_is_looked_at(tmp_path: Path) -> None:
    run = run_with(tmp_path, d=row("a", at=1.0))
    reader = samples.SampleReader(run)
    first = reader.page(SampleQuery())
    with run.responses("d").open("ab") as file:
        file.write(row("b", at=2.0) + row("c", at=3.0)[:-5])
    newer = reader.page(SampleQuery(floor=first.ends))
    assert [h.id for h in newer.heads] == ["b"] and newer.total < 1000 and not newer.rewritten
    run.responses("d").write_bytes(row("z"))
    assert reader.page(SampleQuery(floor=newer.ends)).rewritten


def test_a_row_is_found_again_also_when_the_file_was_written_anew(tmp_path: Path) -> None:
    run = run_with(tmp_path, d=row("a") + row("b"))
    reader = samples.SampleReader(run)
    head = reader.page(SampleQuery()).heads[-1]
    assert reader.sample("d", head.id, head.offset).id == head.id
    run.responses("d").write_bytes(row("x", content="y" * 999) + row("a"))
    assert reader.sample("d", "a", 17).content == "answer a"
    with pytest.raises(samples.NoSuchSample, match="'b'"):
        reader.sample("d", "b", head.offset)
    with pytest.raises(samples.NoSuchSample, match="no dataset"):
        reader.sample("nope", "b")


def test_flagged(tmp_path: Path) -> None:
    run = run_with(tmp_path, d=row("a", at=1) + row("b", at=2) + row("c", at=3), e=row("a", "e"))
    reader = samples.SampleReader(run)
    assert ids(pages(reader, order="flagged")) == []
    flags.put(run, flags.Flag(dataset="d", id="a", at=9.0))
    flags.put(run, flags.Flag(dataset="d", id="gone", at=9.0))
    flags.put(run, flags.Flag(dataset="d", id="a", at=10.0, note="again"))
    assert len(flags.read(run)) == 2
    # What retry took out of the responses is still there to be read.
    dead = {
        "id": "gone",
        "dataset": "d",
        "state": "loop",
        "at": 1.5,
        "content": "x",
        "output_ids": [],
    }
    run.dead("d").write_bytes(json.dumps(dead).encode() + b"\n")
    (page,) = pages(reader, order="flagged")
    assert {(h.dataset, h.id) for h in page.heads} == {("d", "a"), ("d.dead", "gone")}
    assert all(h.flagged for h in page.heads)
    assert reader.sample("d.dead", "gone").content == "x"
    flags.remove(run, "d", "a")
    assert ids(pages(reader, order="flagged")) == ["gone"]
    run.flagged.write_text("[]")
    with pytest.raises(ValueError, match="not a list of flags"):
        reader.page(SampleQuery(order="flagged"))
    assert reader.page(SampleQuery()).heads, "who does not ask for flags is not kept by them"


def test_a_row_made_by_hand_is_told_by_its_place(tmp_path: Path) -> None:
    run = RunDir.at(tmp_path)
    run.responses("d").parent.mkdir(parents=True)
    run.responses("d").write_text('{"id": "odd", "state": "none", "at": "yesterday"}\n')
    with pytest.raises(ValueError, match=r"d\.jsonl: the row 'odd' at byte 0 is none of ours"):
        samples.SampleReader(run).sample("d", "odd")


def test_what_cannot_be_read_is_counted_and_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(responses, "MAX_ROW", 2000)
    lines = [row("a"), b"{broken\n", b"[1]\n", b"\n", row("b", state="odd"), row("l", tokens=999)]
    reader = samples.SampleReader(run_with(tmp_path, d=b"".join([*lines, row("c")])))
    (page,) = pages(reader)
    assert [h.id for h in page.heads] == ["c", "a"] and page.skipped == 4


@given(
    lines=st.lists(st.binary(max_size=40), max_size=20),
    torn=st.binary(max_size=90),
    chunk=st.integers(1, 20),
)
def test_lines_backward_are_the_lines_reversed(
    tmp_path_factory: pytest.TempPathFactory, lines: list[bytes], torn: bytes, chunk: int
) -> None:
    lines = [line.replace(b"\n", b"") for line in lines]
    path = tmp_path_factory.mktemp("s") / "f"
    path.write_bytes(b"".join(line + b"\n" for line in lines) + torn.replace(b"\n", b""))
    starts = [sum(len(line) + 1 for line in lines[:n]) for n in range(len(lines))]
    before = responses.CHUNK
    responses.CHUNK = chunk
    try:
        with path.open("rb") as file:
            found = list(responses.rows_backward(file, path.stat().st_size))
    finally:
        responses.CHUNK = before
    assert found == list(zip(starts, lines, strict=True))[::-1]


def test_a_native_row_is_a_sample_too(tmp_path: Path) -> None:
    (tmp_path / "run.toml").write_text(
        '[target]\nmodel = "m"\n[[server]]\nengine = "embedded"\n'
        '[[dataset]]\nname = "n"\nkind = "native"\nsource = "n.jsonl"\n'
    )
    run = RunDir(tmp_path)
    turns = [
        {"role": "user", "content": "q"},
        {"role": "assistant", "content": "a", "reasoning_content": "r" * 300_000},
    ]
    native = {"id": "i", "dataset": "n", "token_ids": [1, 2, 3], "prompt_tokens": 2}
    run.prompts("n").parent.mkdir()
    run.prompts("n").write_text(json.dumps({**native, "conversation": turns}) + "\n")
    (sample,) = samples.SampleReader(run).samples(None, "newest", 5)
    assert (sample.prompt, len(sample.reasoning), sample.content) == ("q", 200_000, "a")
    assert (sample.state, sample.completion_tokens) == ("complete", 1)
    with pytest.raises(ValueError, match="kind"):
        samples.SampleReader(run).samples(None, "best", 5)


_JSON = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=5,
)
_PARTS = (*json.loads(row("x")), "token_ids", "prompt_tokens")


@given(st.fixed_dictionaries({}, optional=dict.fromkeys(_PARTS, _JSON)))
def test_whatever_stands_in_a_row_it_is_a_sample_or_none(parts: dict[str, Any]) -> None:
    found = responses.to_sample({**parts, "id": "x", "state": "complete"})
    assert found.id == "x" and found.completion_tokens >= 0
    line = json.dumps(parts).encode()
    head = responses.read_head(line)
    assert head is None or head.tokens >= 0


def test_a_row_with_wrong_counts_is_read_and_hides_no_other(tmp_path: Path) -> None:
    whole = row("a", at=1.0)
    odd = row("b", at=2.0, usage="12 tokens"), row("c", at=3.0).replace(b'"at":3.0', b'"at":3.0.1')
    reader = samples.SampleReader(run_with(tmp_path, d=whole + b"".join(odd)))
    found = reader.samples("d", "newest", 10)
    assert [(s.id, s.completion_tokens) for s in found] == [("b", 0), ("a", 5)]


def test_the_settings_that_were_accepted_name_the_datasets(tmp_path: Path) -> None:
    """Not an edit of run.toml that is not in force: it must hide no responses."""
    run = run_with(tmp_path, old=row("a", "old"))
    text = (
        '[target]\nmodel = "m"\n[[server]]\nurl = "http://x:1"\n'
        '[[dataset]]\nname = "{}"\nsource = "d.jsonl"\n'
    )
    run.config.write_text(text.format("new"))
    reader = samples.SampleReader(run)
    assert list(reader.files()) == ["new"]
    run.accepted.write_text(text.format("old"))
    assert list(reader.files()) == ["old"] and reader.find("a") == ("old", 0)
