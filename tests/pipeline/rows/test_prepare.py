"""Phase 1 as a process: rows, counts, rejections, what is done again and what is not."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from transformers import AutoTokenizer

from eagle_tui.clock import SystemClock
from eagle_tui.config import load_config
from eagle_tui.pipeline.prepare import body
from eagle_tui.pipeline.worker import Stopped, Worker, main
from eagle_tui.rundir import jsonl, manifest
from eagle_tui.rundir.events import WorkerLog
from eagle_tui.rundir.paths import RunDir


def write(path: Path, *rows: Any) -> None:
    path.write_bytes(b"".join(json.dumps(row).encode() + b"\n" for row in rows))


def prepare(root: Path) -> int:
    return main("prepare", body, [str(root)])


def rows(root: Path, name: str) -> list[dict[str, Any]]:
    return list(jsonl.rows(RunDir.at(root).prompts(name)))


def events(root: Path, kind: str) -> list[dict[str, Any]]:
    logs = sorted((root / "events").glob("prepare-*.jsonl"))
    return [e for e in jsonl.rows(logs[-1]) if e["e"] == kind]


def counts(root: Path) -> dict[str, Any]:
    made = manifest.read(RunDir.at(root), "prepare")
    assert made is not None
    return made.counts


ASK = {"messages": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}]}


def test_rows_of_both_kinds(run_dir: Any, tmp_path: Path) -> None:
    root = run_dir(
        {"b": 'source = "b.jsonl"', "a": 'source = "a.jsonl"\nkind = "native"'},
    )
    write(root / "b.jsonl", {**ASK, "tools": [{"name": "f"}]}, {"prompt": "r"})
    write(root / "a.jsonl", ASK, {"messages": ASK["messages"][:1]})
    assert prepare(root) == 0
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "model")
    first, second = rows(root, "b")
    assert set(first) == {
        *("id", "dataset", "ordinal", "conversation", "tools", "prompt_ids", "opened", "n_turns")
    }
    assert first["conversation"] == [{"role": "user", "content": "q"}]
    text = tokenizer.decode(second["prompt_ids"])
    assert text == "<|im_start|>user\nr<|im_end|>\n<|im_start|>assistant\n"
    assert (second["opened"], second["n_turns"], "tools" in second) == (False, 1, False)
    (native,) = rows(root, "a")
    ((start, end),) = native["spans"]
    assert tokenizer.decode(native["token_ids"][start:end]) == "a<|im_end|>"
    assert native["prompt_tokens"] == len(native["token_ids"]) - (end - start)
    assert native["conversation"] == ASK["messages"]
    found = counts(root)["b"]
    assert (found["rows"], found["kept"], found["turns_in"], found["turns_kept"]) == (2, 2, 3, 2)
    assert found["prompt_tokens"] == sum(len(r["prompt_ids"]) for r in (first, second))
    told = {e["name"]: e["prompts"] for e in events(root, "dataset")}
    assert told == {"b": 2, "a": 1}
    last = events(root, "progress")[-1]
    assert (last["done"], last["total"], last["unit"]) == (4, 4, "rows")


def test_ids_are_of_dataset_and_content_and_ordinal(run_dir: Any) -> None:
    root = run_dir({"a": 'source = "x.jsonl"', "b": 'source = "x.jsonl"'})
    write(root / "x.jsonl", {"id": "1", "prompt": "q"}, {"id": "1", "prompt": "q"}, {"prompt": "r"})
    assert prepare(root) == 0
    a, b = rows(root, "a"), rows(root, "b")
    assert [r["ordinal"] for r in a] == [0, 1, 0]
    assert len({r["id"] for r in a + b}) == 6
    assert all(len(r["id"]) == 24 and int(r["id"], 16) >= 0 for r in a)
    write(root / "x.jsonl", {"prompt": "r"}, {"id": "other", "prompt": "q"})
    assert prepare(root) == 0
    assert {r["id"] for r in rows(root, "a")} == {a[0]["id"], a[2]["id"]}


def test_opened_thought_is_seen(run_dir: Any) -> None:
    root = run_dir(
        {"a": 'source = "a.jsonl"'}, target="chat_template_kwargs = {enable_thinking = true}"
    )
    write(root / "a.jsonl", {"prompt": "what is <think>?"})
    assert prepare(root) == 0
    assert rows(root, "a")[0]["opened"] is True


def test_rejections_are_counted_written_and_told(run_dir: Any) -> None:
    root = run_dir({"a": 'source = "a.jsonl"'}, extra="[prepare]\nmax_prompt_tokens = 60\n")
    write(
        root / "a.jsonl",
        {"prompt": "q"},
        {"conversations": []},
        {"prompt": "x" * 100},
        {"conversations": [{"from": "human", "value": None}]},
        {"conversations": [{"from": "gpt", "value": "hi"}, {"from": "human", "value": "\ud83d"}]},
    )
    with (root / "a.jsonl").open("ab") as file:
        file.write(b'{"prompt":\n')
    assert prepare(root) == 0
    found = counts(root)["a"]
    assert (found["rows"], found["kept"]) == (6, 2)
    assert found["rejected"] == {"empty": 1, "over context": 1, "null turn": 1, "bad JSON": 1}
    assert (found["surrogates"], found["leading_answers_dropped"]) == (1, 1)
    assert rows(root, "a")[1]["conversation"][0]["content"] == "\ufffd"
    bad = list(jsonl.rows(RunDir.at(root).rejected("a")))
    assert sorted(r["row"] for r in bad) == [2, 3, 4, 6]
    over = next(r for r in bad if r["reason"] == "over context")
    data = (root / "a.jsonl").read_bytes()
    assert data[over["offset"] :].startswith(b'{"prompt": "xxx')
    assert over["excerpt"].startswith('{"prompt": "xxx')
    assert "at most 60" in over["detail"]
    notes = [e["text"] for e in events(root, "note")]
    assert any(t.startswith("a: 4 of 6 rows rejected: ") and "1 empty" in t for t in notes)


def test_rows_of_many_megabytes_are_rejected_fast(run_dir: Any) -> None:
    """Tokenised whole, each of them would take half a minute."""
    root = run_dir({"b": 'source = "b.jsonl"', "a": 'source = "a.jsonl"\nkind = "native"'})
    huge = [{"role": "user", "content": "the cat " * 500_000}, ASK["messages"][1]]
    write(root / "b.jsonl", {"messages": huge}, ASK)
    write(root / "a.jsonl", {"messages": huge}, ASK)
    began = time.monotonic()
    assert prepare(root) == 0
    assert time.monotonic() - began < 10
    assert {name: found["rejected"] for name, found in counts(root).items()} == {
        "a": {"over context": 1},
        "b": {"over context": 1},
    }


def test_a_template_that_leaves_out_the_prompt_is_refused(
    run_dir: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    root = run_dir({"a": 'source = "a.jsonl"'}, target='chat_template = "t.jinja"')
    (root / "t.jinja").write_text("<|im_start|>assistant")
    write(root / "a.jsonl", ASK, {"prompt": "another"})
    assert prepare(root) == 3
    assert "every prompt becomes '<|im_start|>assistant'" in capsys.readouterr().err


def test_prompts_leave_room_for_an_answer(run_dir: Any) -> None:
    short = len("<|im_start|>user\n<|im_end|>\n<|im_start|>assistant\n")
    root = run_dir(
        {"a": 'source = "a.jsonl"'},
        target="context_length = 100",
        extra="[prepare]\nmin_response_tokens = 40\n",
    )
    write(root / "a.jsonl", {"prompt": "x" * 30}, {"prompt": "x" * 60})
    assert short < 60
    assert prepare(root) == 0
    assert counts(root)["a"]["rejected"] == {"over context": 1}


def test_samples_takes_the_first_valid_rows(run_dir: Any) -> None:
    root = run_dir({"a": 'source = "a.jsonl"\nsamples = 3'})
    write(root / "a.jsonl", {"prompt": ""}, *({"prompt": str(n)} for n in range(500)))
    assert prepare(root) == 0
    assert [r["conversation"][0]["content"] for r in rows(root, "a")] == ["0", "1", "2"]
    assert counts(root)["a"]["rows"] < 10


def test_system_prompt_fills_in(run_dir: Any) -> None:
    root = run_dir({"a": 'source = "a.jsonl"'}, extra='[prepare]\nsystem_prompt = "s"\n')
    write(root / "a.jsonl", {"prompt": "q"})
    assert prepare(root) == 0
    assert rows(root, "a")[0]["conversation"][0] == {"role": "system", "content": "s"}


def test_finished_datasets_are_not_made_again(run_dir: Any) -> None:
    root = run_dir({"a": 'source = "a.jsonl"', "b": 'source = "b.jsonl"'})
    write(root / "a.jsonl", {"prompt": "q"})
    write(root / "b.jsonl", {"prompt": "q"})
    assert prepare(root) == 0
    run = RunDir.at(root)
    before = {n: run.prompts(n).stat().st_mtime_ns for n in "ab"}
    write(root / "b.jsonl", {"prompt": "changed"})
    assert prepare(root) == 0
    assert run.prompts("a").stat().st_mtime_ns == before["a"]
    assert run.prompts("b").stat().st_mtime_ns != before["b"]
    assert counts(root)["a"]["kept"] == 1
    with run.prompts("a").open("ab") as file:  # torn or tampered with: made again
        file.write(b"{")
    assert prepare(root) == 0
    assert len(rows(root, "a")) == 1


def test_a_crash_leaves_no_half_dataset(run_dir: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    root = run_dir({"a": 'source = "a.jsonl"', "b": 'source = "b.jsonl"'})
    write(root / "a.jsonl", *({"prompt": str(n)} for n in range(300)))
    write(root / "b.jsonl", *({"prompt": str(n)} for n in range(300)))
    run = RunDir.at(root)
    written = 0
    append = jsonl.Appender.append

    def failing(self: Any, row: dict[str, Any]) -> int:
        nonlocal written
        if self.path.name == ".b.jsonl.tmp":
            written += 1
            if written > 200:
                raise OSError(28, "No space left on device")
        return append(self, row)

    monkeypatch.setattr(jsonl.Appender, "append", failing)
    assert prepare(root) == 1
    assert "No space left" in events(root, "end")[0]["reason"]
    assert not run.prompts("b").exists()
    assert not list(run.phase("prepare").glob(".*.tmp"))
    assert manifest.read(run, "prepare") is None
    monkeypatch.undo()
    before = run.prompts("a").stat().st_mtime_ns
    assert prepare(root) == 0
    assert (len(rows(root, "b")), run.prompts("a").stat().st_mtime_ns) == (300, before)


def test_stop_is_heard_between_batches(run_dir: Any) -> None:
    root = run_dir({"a": 'source = "a.jsonl"'})
    write(root / "a.jsonl", *({"prompt": str(n)} for n in range(1000)))
    run, clock = RunDir.at(root), SystemClock()
    log = WorkerLog(run.events("prepare", 1), clock)
    worker = Worker(run, load_config(run.config), log, clock, "prepare", 1)
    worker.stop.set()
    with pytest.raises(Stopped):
        body(worker)
    log.close()
    assert not run.prompts("a").exists()


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (None, "there is no file"),
        (b"[]", "holds no rows"),
        (b'{"x": 1}\n{"x": 2}\n', "none of the 2 rows of .* can be used: 2 unknown format"),
    ],
)
def test_refused(data: bytes | None, said: str, run_dir: Any, capsys: Any) -> None:
    root = run_dir({"a": 'source = "a.json"'})
    if data is not None:
        (root / "a.json").write_bytes(data)
    assert prepare(root) == 3
    assert re.search(said, capsys.readouterr().err)


def test_unknown_reasoning_family_is_refused(run_dir: Any, capsys: Any) -> None:
    root = run_dir({"a": 'source = "a.jsonl"'}, target='reasoning = "qwen33"')
    write(root / "a.jsonl", {"prompt": "q"})
    assert prepare(root) == 3
    assert "did you mean 'qwen3'" in capsys.readouterr().err


def test_kill_and_run_again(run_dir: Any) -> None:
    """A process that is killed with -9 leaves what a new one completes."""
    root = run_dir({"a": 'source = "a.jsonl"'})
    write(root / "a.jsonl", *({"prompt": f"{n} " + "word " * 200} for n in range(4000)))
    command = [sys.executable, "-m", "eagle_tui.pipeline.prepare", str(root)]
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    temp = root / "prompts" / ".a.jsonl.tmp"
    until = time.monotonic() + 60
    while time.monotonic() < until and not (temp.exists() and temp.stat().st_size):
        time.sleep(0.01)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    assert temp.exists()
    assert prepare(root) == 0
    assert not temp.exists()
    assert [r["conversation"][0]["content"].split()[0] for r in rows(root, "a")] == [
        str(n) for n in range(4000)
    ]


@pytest.mark.parametrize("first", [{"prompt": "r"}, {"messages": []}], ids=["kept", "rejected"])
def test_progress_ends_at_what_was_to_be_read(run_dir: Any, first: dict[str, Any]) -> None:
    root = run_dir({"d": 'source = "d.jsonl"\nsamples = 2'})
    write(root / "d.jsonl", first, *[ASK] * 5)
    assert prepare(root) == 0
    last = events(root, "progress")[-1]
    assert last["done"] == last["total"] == counts(root)["d"]["rows"]
