"""`samples` and `logs`: what the screens of these names show, from files alone."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from eagle_tui.cli import main as cli
from eagle_tui.cli.logs import Wanted
from eagle_tui.cli.tables import narrowed
from eagle_tui.client_api import NotFound
from eagle_tui.reader.tokens import TokenDecoder
from eagle_tui.records import LogFile, TokenView
from eagle_tui.rundir.paths import RunDir

HOSTILE = "\x1b[2J\x1b]52;c;aGk=\x07see [/path] and [b + \u202eevil\u200b"


def run(*words: str) -> int:
    with pytest.raises(SystemExit) as ended:
        cli.main(list(words))
    assert isinstance(ended.value.code, int)
    return ended.value.code


def row(number: int, dataset: str, **more: Any) -> str:
    body = {
        "id": f"{dataset}{number}",
        "dataset": dataset,
        "state": "complete",
        "finish_reason": "stop",
        "usage": {"prompt_tokens": 2, "completion_tokens": number, "reasoning_tokens": 1},
        "endpoint": "server",
        "attempt": 1,
        "at": 1_800_000_000.0 + number,
        "reasoning": f"thought {number}",
        "content": f"answer {number}",
        "conversation": [{"role": "user", "content": f"question {number}"}],
        "prompt_ids": [10, 11],
        "output_ids": [12, 13, 14],
        **more,
    }
    return json.dumps(body, separators=(",", ":")) + "\n"


@pytest.fixture
def there(tmp_path: Path) -> RunDir:
    """A run whose supervisor never was: two datasets, three logs."""
    found = RunDir.at(tmp_path / "run")
    found.responses("a").parent.mkdir(parents=True)
    found.logs.mkdir()
    sets = "".join(f'[[dataset]]\nname = "{n}"\nsource = "{n}.jsonl"\n' for n in ("a", "b"))
    found.config.write_text(
        '[run]\nname = "r"\n[target]\nmodel = "builtin:tiny"\n[[server]]\nengine = "embedded"\n'
        + sets
    )
    found.responses("a").write_text("".join(row(n, "a") for n in range(1, 31)))
    odd = row(99, "b", state="loop", reasoning=HOSTILE, content="", finish_reason="length")
    found.responses("b").write_text(row(5, "b") + odd + '{"id":"torn')
    found.dead("b").write_text(row(7, "b", state="failed", id="dead7"))
    found.flagged.write_text(json.dumps({"flags": [{"dataset": "a", "id": "a3", "at": 1.0}]}))
    return found


def test_samples_are_listed_as_the_screen_lists_them(
    there: RunDir, capsys: pytest.CaptureFixture[str]
) -> None:
    root = str(there.root)

    def ids(*words: str) -> list[str]:
        assert run("samples", root, "--json", *words) == 0
        return [json.loads(line)["id"] for line in capsys.readouterr().out.splitlines()]

    assert ids("-n", "3") == ["b99", "a30", "a29"]
    assert ids("-n", "2", "--dataset", "a") == ["a30", "a29"]
    assert ids("-n", "2", "--order", "longest") == ["b99", "a30"]
    assert ids("--order", "loop") == ["b99"]
    assert ids("--text", "QUESTION 17") == ["a17"]
    assert ids("--order", "truncated") == []
    assert ids("--order", "flagged") == ["a3"]
    assert run("samples", root, "-n", "2") == 0
    first, second = capsys.readouterr().out.splitlines()
    assert " b " in first and " loop " in first and " 99 " in first
    assert second.endswith(" a30 question 30")
    assert run("samples", root, "--text", "nowhere") == 0
    said = capsys.readouterr()
    assert said.out == "" and "no sample holds that text" in said.err


def test_one_sample_whole_is_harmless(there: RunDir, capsys: pytest.CaptureFixture[str]) -> None:
    root = str(there.root)
    for words in (("--id", "b99"), ("--order", "loop", "--whole")):
        assert run("samples", root, *words) == 0
        shown = capsys.readouterr().out
        assert "## reasoning" in shown and "see [/path] and [b + " in shown
        assert not any(sign in shown for sign in "\x1b\x07\u202e\u200b")
        assert "\u241b[2J" in shown
    assert run("samples", root, "--id", "b99", "--json") == 0
    raw = capsys.readouterr().out
    assert "\x1b" not in raw and json.loads(raw)["reasoning"] == HOSTILE
    assert run("samples", root, "--id", "dead7") == 0
    assert "failed" in capsys.readouterr().out, "dead letters are found by their ids, too"


def test_tokens_with_ids_and_mask(
    there: RunDir, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the helper makes of a row (tests/pipeline/test_token_view.py), as text and as JSON."""
    root = str(there.root)

    async def view(_decoder: TokenDecoder, row: dict[str, Any]) -> TokenView:
        ids = (*row["prompt_ids"], *row["output_ids"])
        pieces = ("ask", "\n", "th", "\x1b[2J", " x")
        return TokenView(ids=ids, mask=(0, 0, 1, 1, 1), prompt=2, pieces=pieces)

    monkeypatch.setattr(TokenDecoder, "view", view)
    assert run("samples", root, "--id", "a4", "--tokens", "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["id"], found["tokens"]["ids"]) == ("a4", [10, 11, 12, 13, 14])
    assert run("samples", root, "--id", "a4", "--tokens") == 0
    assert capsys.readouterr().out.splitlines() == [
        "5 tokens, 3 of them predicted in training  (* predicted)",
        "prompt  2 tokens",
        "ask ␊",
        "10  11",
        "response  3 tokens",
        "th  ␛[2J ·x",
        "*12 *13  *14",
    ]
    assert run("samples", root, "--tokens") == 2
    assert "--id" in capsys.readouterr().err


def test_what_is_not_there_is_told_apart_from_what_fails(
    there: RunDir, capsys: pytest.CaptureFixture[str]
) -> None:
    root = str(there.root)
    for words, said in (
        (("samples", root, "--dataset", "c"), "there are: a, b"),
        (("samples", root, "--id", "zzz"), "no response has the id 'zzz'"),
        (("samples", root, "--id", "a1", "--dataset", "c"), "no dataset is named 'c'"),
        (("samples", str(there.root / "no")), "is no run, but lies in one"),
        (("logs", root, "x.log"), "there are: none"),
    ):
        assert run(*words) == 4
        assert said in capsys.readouterr().err
    for wrong in (
        ("samples", root, "--order", "best"),
        ("logs", root, "--phase", "generate", "--server", "s"),
        ("logs", root, "--at", "1%", "-f"),
    ):
        assert run(*wrong) == 2
    there.responses("a").chmod(0)
    try:
        code = run("samples", root)
    finally:
        there.responses("a").chmod(0o644)
    assert code in (0, 1), "root reads it all the same"


def write(there: RunDir, name: str, text: str) -> None:
    with (there.logs / name).open("a") as file:
        file.write(text)


def test_logs_are_listed_read_and_searched(
    there: RunDir, capsys: pytest.CaptureFixture[str]
) -> None:
    root = str(there.root)
    lines = [f"[2027-01-15 08:{n // 60:02d}:{n % 60:02d}] row {n}" for n in range(2500)]
    write(there, "generate-0001.log", "old\n")
    write(there, "generate-0002.log", "\n".join(lines) + "\n" + f"ERROR {HOSTILE}\n")
    write(there, "server-main-0001.log", "Traceback (most recent call last):\n  File\nfine\n")

    def rows(*words: str) -> list[str]:
        assert run("logs", root, *words) == 0
        return capsys.readouterr().out.splitlines()

    assert sorted(line.split()[-1] for line in rows()) == [
        "generate-0001.log", "generate-0002.log", "server-main-0001.log",
    ]  # fmt: skip
    assert rows("--phase", "generate", "-n", "2")[0].endswith("row 2499")
    assert rows("--phase", "generate", "-n", "2")[1].startswith("ERROR \u241b[2J")
    assert rows("--phase", "generate", "--attempt", "1") == ["old"]
    assert rows("server-main-0001") == ["Traceback (most recent call last):", "  File", "fine"]
    assert len(rows("generate-0002.log", "--all")) == 2501
    assert [r[-6:] for r in rows("--phase", "generate", "-n", "2400")][:1] == ["ow 101"]
    (there_on, _) = rows("--phase", "generate", "--at", "2027-01-15 08:10:05", "-n", "2")
    assert there_on.endswith("row 605")
    assert rows("--phase", "generate", "--search", "ROW 17", "-n", "2")[1].endswith("row 1799")
    found = rows("--level", "error")
    assert "==> server-main-0001.log <==" in found and "  File" in found and "fine" not in found
    assert any(line.startswith("ERROR") for line in found)
    (last,) = rows("--server", "main", "-n", "1", "--json")
    assert json.loads(last) == {
        "log": "server-main-0001.log", "offset": 42, "text": "fine", "level": None, "at": None,
        "updates": 0,
    }  # fmt: skip
    assert run("logs", root, "--server", "main", "--at", "14:20") == 4
    assert "no times stand" in capsys.readouterr().err
    assert run("logs", root, "--server", "main", "--at", "soon") == 2


def test_following_goes_on_to_the_next_attempt(
    there: RunDir, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Half a row waits for its end; a log that is cut is shown from its beginning."""
    write(there, "train-0001.log", "first\nhalf")
    steps = iter(
        (
            ("train-0001.log", "a", " and half\nthird\n"),
            ("train-0001.log", "w", "anew\n"),
            ("train-0002.log", "a", "again\n"),
        )
    )

    async def asleep(_seconds: float) -> None:
        step = next(steps, None)
        if step is None:
            raise KeyboardInterrupt
        name, mode, text = step
        with (there.logs / name).open(mode) as file:
            file.write(text)

    monkeypatch.setattr("asyncio.sleep", asleep)
    assert run("logs", str(there.root), "--phase", "train", "--follow") == 130
    said = capsys.readouterr()
    assert said.out.splitlines() == [
        "first", "half and half", "third", "anew", "==> train-0002.log <==", "again",
    ]  # fmt: skip
    assert "was cut short" in said.err


def test_which_log_is_meant() -> None:
    files = [
        LogFile(name=name, size=1, modified=at)
        for name, at in (
            ("server-a-0002.log", 9.0),
            ("server-a-0010.log", 8.0),
            ("server-a-0010-0001.log", 7.0),
            ("hang-a.txt", 99.0),
            ("server-a-b-0001.log", 50.0),
        )
    ]
    assert Wanted(owner="server-a").newest(files).name == "server-a-0010.log"
    assert Wanted(owner="server-a-0010").newest(files).name == "server-a-0010-0001.log"
    assert Wanted(owner="server-a-b").newest(files).name == "server-a-b-0001.log"
    assert Wanted(owner="server-a", attempt=2).newest(files).name == "server-a-0002.log"
    assert Wanted(name="hang-a.txt").newest(files).name == "hang-a.txt"
    assert Wanted(name="server-a-0002").newest(files).name == "server-a-0002.log"
    with pytest.raises(NotFound, match=r"of train of attempt 3; there are: hang-a\.txt, server"):
        Wanted(owner="train", attempt=3).pick(files)


def test_a_narrow_terminal_does_without_spare_columns() -> None:
    heads = ("name", "-a", "-b", "-c")
    rows = [("x" * 10, "1", "22", "333")]
    spare = ("-b", "-a")
    assert narrowed(heads, rows, None, spare) == (list(heads), [list(rows[0])])
    assert narrowed(heads, rows, 22, spare)[0] == list(heads)
    assert narrowed(heads, rows, 21, spare) == (["name", "-a", "-c"], [["x" * 10, "1", "333"]])
    assert narrowed(heads, rows, 1, spare)[0] == ["name", "-c"], "the others always stay"
