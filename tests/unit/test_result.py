"""What the benchmark found: read from whatever stands in its report, put in words, drawn."""

from __future__ import annotations

import json
import shlex
import tarfile
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.style import Style

from eagle_tui.cli import main as cli
from eagle_tui.clock import ManualClock
from eagle_tui.protocol import PhaseStatus, RunStatus, Status, SupervisorStatus
from eagle_tui.reader import result as reader
from eagle_tui.replay.client import ReplayClient
from eagle_tui.replay.timeline import Timeline
from eagle_tui.result import BenchReport, Outcome, ResultRecord, SettingResult, Speedup
from eagle_tui.rundir.paths import RunDir
from eagle_tui.text import visible
from eagle_tui.ui import result_tables as tables
from eagle_tui.ui.glyphs import GlyphMode, ascii_text, glyph_set
from eagle_tui.ui.palette import Palette
from eagle_tui.ui.result_lines import ResultLines, shell_lines

RECORDED = Path(__file__).parents[1] / "replay" / "data" / "h200-smollm2.tar.xz"
PLAIN = Palette(**{field.name: Style() for field in fields(Palette)})
KEYS = (
    *("accept_length", "by_dataset", "overall", "conditional", "speedup", "mean", "low", "high"),
    *("sweep", "settings", "flags", "identity", "compared", "equal", "alone", "hints", "failed"),
    *("provenance", "serve", "steps", "topk", "draft_tokens", "target", "baseline", "tok_s"),
)
SCALARS = (
    st.none()
    | st.booleans()
    | st.floats()
    | st.integers()
    | st.just(10**400)
    | st.text(st.characters(), max_size=30)
)
JSON = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.sampled_from(KEYS) | st.text(max_size=9), inner, max_size=6)
    ),
    max_leaves=30,
)
"""Any value, with the report's own keys in it oftener than chance would have it."""


def lines(
    record: ResultRecord, width: int = 80, mode: GlyphMode = "block", status: Status | None = None
) -> list[str]:
    drawn = ResultLines(PLAIN, glyph_set(mode), width).all(record, status)
    return ["".join(part.text for part in line).rstrip() for line in drawn]


def status(*phases: dict[str, Any]) -> Status:
    return Status(
        at=0.0,
        run=RunStatus(name="r", dir="/r", target="t"),
        supervisor=SupervisorStatus(),
        phases=tuple(PhaseStatus.model_validate(phase) for phase in phases),
    )


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("h200")
    with tarfile.open(RECORDED) as archive:
        archive.extractall(root, filter="data")
    return root


@pytest.fixture
def h200(original: Path, tmp_path: Path) -> RunDir:
    """The part of the recorded run that the result is read from."""
    for name in ("bench/report.json", "bench/report.md", "bench/manifest.json", "status.json"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes((original / name).read_bytes())
    (tmp_path / "run.toml").write_text((original / "run.toml").read_text())
    (tmp_path / "drafter" / "export").mkdir(parents=True)
    return RunDir.at(tmp_path)


# Reading


@settings(max_examples=150)
@given(JSON, st.integers(1, 120), st.sampled_from(["block", "ascii"]))
def test_whatever_stands_in_a_report_is_read_and_drawn(
    body: object, width: int, mode: GlyphMode
) -> None:
    report = reader.parse(body)
    reader.of_counts(body)
    text = report.model_dump_json()
    assert BenchReport.model_validate_json(text) == report
    for line in lines(ResultRecord(made_at=1.0, report=report), width, mode):
        assert visible(line) == line


def test_a_real_report(h200: RunDir) -> None:
    record = reader.read(h200)
    report = record.report
    assert report is not None and not record.problem
    gain = report.outcome.speedup
    assert gain is not None and (gain.kind, gain.low, gain.high) == ("loss", 0.8984, 0.985)
    assert report.outcome.brief == (
        "a loss, 0.90–0.98 × as fast with the drafter; accept length 1.92"
    )
    assert report.foretold_apart == pytest.approx(-0.0377, abs=1e-3)
    assert [row.name for row in report.datasets][:2] == ["gsm8k", "mt-bench"]
    first = report.datasets[0].speedup
    assert first is not None and first.kind is None, "that report has no intervals of datasets"
    assert first.mean == pytest.approx(194.51 / 179.95)
    assert [(row.concurrency, row.best) for row in report.settings] == [(1, False), (16, True)]
    words = shlex.split(report.serve)
    assert words[words.index("--speculative-algorithm") + 1] == "EAGLE3"
    assert words[words.index("--speculative-draft-model-path") + 1] == str(
        h200.phase("train") / "export"
    ), "where it lies now, not where it was measured"
    assert "--mem-fraction-static 0.3" in report.flags and "speculative" not in report.flags
    assert [file.label for file in record.files] == ["report", "for SGLang"]


def test_keys_of_a_server_are_not_shown_and_a_builtin_target_is_not_served() -> None:
    made = {"target": "builtin:tiny", "serve": {"steps": 3, "topk": 1, "draft_tokens": 4}}
    flags = {"api-key": "s3cret", "tp": 2, "max-running": -1, "kv": 1234567, "log": [1, "a b"]}
    report = reader.parse({"provenance": made, "settings": {"flags": flags}})
    assert report.serve == ""
    assert report.flags == "--api-key '***' --tp 2 --max-running -1 --kv 1234567 --log 1 'a b'"
    served = reader.parse({"provenance": {**made, "target": "/m; rm -rf x"}})
    assert "--model-path '/m; rm -rf x' " in served.serve


@pytest.mark.parametrize(
    ("data", "words"),
    [(None, "is gone"), (b"{", "not valid JSON"), (b"[]", "not a JSON object"),
     (b'"' + b"x" * reader.MOST_BYTES + b'"', "larger than 4 MiB"), (b"[" * 9999, "nested")],
    ids=["gone", "torn", "list", "large", "deep"],
)  # fmt: skip
def test_of_a_report_that_cannot_be_read_the_manifest_tells(
    h200: RunDir, data: bytes | None, words: str
) -> None:
    path = h200.phase("bench") / "report.json"
    path.unlink() if data is None else path.write_bytes(data)
    record = reader.read(h200)
    assert words in record.problem and str(path) in record.problem
    assert record.report is not None and record.report.outcome.accept == 1.9164
    told = lines(record, 200)
    assert words in told[0] and told[1].startswith(" ✗ a loss: 0.94")


def test_without_a_manifest_there_is_no_result(h200: RunDir) -> None:
    h200.manifest("bench").write_text("[]")
    assert "not a JSON object" in reader.read(h200).problem
    h200.manifest("bench").unlink()
    record = reader.read(h200)
    assert record.report is None and not record.problem


async def test_a_replay_shows_it_from_when_it_was_made(original: Path) -> None:
    run = RunDir.at(original)
    client = ReplayClient.open(run, lambda a, b: Timeline(ManualClock(), a, b, b))
    try:
        made = (await client.result()).made_at
        assert made is not None and client.timeline.start < made < client.timeline.end
        client.timeline.seek(made - 1)
        assert await client.result() == ResultRecord()
        assert tables.waiting((await client.status()).phases)[0].startswith("bench runs")
    finally:
        await client.close()


# Words


@pytest.mark.parametrize(
    ("ends", "kind", "words"),
    [
        ((1.2, 1.1, 1.3), "gain", "a gain, 1.10–1.30 × as fast with the drafter"),
        ((0.9, 0.8, 0.99), "loss", "a loss, 0.80–0.99 × as fast with the drafter"),
        ((1.0, 0.9, 1.1), "even", "neither a gain nor a loss, 0.90–1.10 × as fast"),
        ((1.2, None, None), None, "1.20 × as fast with the drafter"),
    ],
)
def test_a_gain_is_what_the_whole_interval_says(
    ends: tuple[float, float | None, float | None], kind: str | None, words: str
) -> None:
    gain = Speedup(mean=ends[0], low=ends[1], high=ends[2])
    assert gain.kind == kind
    assert Outcome(speedup=gain).brief.startswith(words)
    report = BenchReport(outcome=Outcome(speedup=gain), settings=(SettingResult(speedup=gain),))
    glyph = {"gain": "● ", "loss": "✗ ", "even": "▲ ", None: ""}[kind]
    assert lines(ResultRecord(report=report))[0].startswith(f" {glyph}")


def test_nothing_known_is_nothing_said() -> None:
    assert Outcome().brief == ""
    assert tables.headline(Outcome()) == "no speed-up was measured"


BENCH = {"name": "bench", "state": "pending"}


@pytest.mark.parametrize(
    ("phases", "words"),
    [
        (({"name": "extract", "state": "done"},
          {"name": "train", "state": "running", "done": 3, "total": 9, "unit": "steps",
           "eta_s": (1800, 2400, 2700)}, BENCH),
         "bench has not run: train runs, 3/9 steps, 30–45 min left"),
        (({"name": "train", "state": "failed", "reason": "no disk"},
          {**BENCH, "state": "blocked", "reason": "train is failed"}),
         "bench has not run: train is failed: no disk"),
        (({"name": "train", "state": "done"},
          {**BENCH, "state": "running", "done": 4, "total": 8, "unit": "prompts"}),
         "bench runs, 4/8 prompts"),
        (({"name": "train", "state": "done"},
          {**BENCH, "state": "blocked", "reason": "not named in run.phases"}),
         "bench does not run: not named in run.phases"),
        (({"name": "train", "state": "done"}, {**BENCH, "reason": "the run is down"}),
         "bench has not run: the run is down"),
        (({"name": "train", "state": "pending"},), "This run has no benchmark"),
    ],
)  # fmt: skip
def test_what_comes_before_it(phases: tuple[dict[str, Any], ...], words: str) -> None:
    now = status(*phases)
    assert tables.waiting(now.phases)[0] == words
    assert lines(ResultRecord(), status=now)[0] == f" {words}"


def test_what_training_foretells_and_that_a_result_is_stale() -> None:
    train = {"name": "train", "state": "running", "figures": {"accept": 1.8441}}
    assert "accept length of 1.84 so far" in tables.waiting(status(train, BENCH).phases)[1]
    stale = status({**BENCH, "state": "stale", "reason": "changed: [bench]"})
    told = lines(ResultRecord(made_at=1.0, report=BenchReport()), status=stale)
    assert told[0] == " bench is stale: changed: [bench]"


# Drawing


@pytest.mark.parametrize("width", [20, 60, 80, 200])
@pytest.mark.parametrize("mode", ["block", "ascii"])
def test_the_real_one_fits(h200: RunDir, width: int, mode: GlyphMode) -> None:
    told = lines(reader.read(h200), width, mode)
    assert any("best" in line for line in told) or width < 60
    if width >= 60:
        assert all(cell_len(line) <= width for line in told)
    if mode == "ascii":
        assert all(ascii_text(line).isascii() for line in told)
    chart = [line for line in told if "gsm8k" in line]
    assert (glyph_set(mode).bar_full * 4 in chart[0]) == (width >= 80)


def test_a_setting_that_failed_says_why_and_hints_are_shown() -> None:
    failed = SettingResult(steps=5, topk=1, draft_tokens=6, concurrency=0, failed="out of memory")
    report = BenchReport(settings=(failed,), hints=("the algorithm is EAGLE", "d2t is missing"))
    told = "\n".join(lines(ResultRecord(report=report), 120))
    assert "✗ failed: out of memory" in told
    assert " look at    the algorithm is EAGLE" in told


LETTERS = st.characters(min_codepoint=33, max_codepoint=126) | st.sampled_from("é字 ")


@given(st.lists(st.text(LETTERS, min_size=1, max_size=40)), st.integers(30, 90))
def test_a_command_on_several_lines_is_the_same_to_a_shell(words: list[str], width: int) -> None:
    found = shell_lines(shlex.join(["python", *words]), width)
    assert all(cell_len(line) <= width for line in found)
    short = [word for word in words if cell_len(shlex.quote(word)) <= width - 6]
    found = shell_lines(shlex.join(["python", *short]), width)
    # To a shell, unlike to shlex, a backslash at the end of a line is nothing.
    assert shlex.split("\n".join(found).replace("\\\n", "")) == ["python", *short]


# The command


def run(*words: str) -> int:
    with pytest.raises(SystemExit) as ended:
        cli.main(list(words))
    assert isinstance(ended.value.code, int)
    return ended.value.code


def test_the_command_tells_what_the_screen_shows(
    h200: RunDir, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("result", str(h200.root)) == 0
    said = capsys.readouterr().out
    assert said.startswith("a loss: 0.94 × as fast with the drafter (0.90–0.98)\n")
    for words in ("slower, best", "gsm8k", "46/176 prompts", "--speculative-algorithm EAGLE3 "):
        assert words in said
    assert run("result", str(h200.root), "--json") == 0
    body = json.loads(capsys.readouterr().out)
    assert body["brief"].startswith("a loss") and body["report"]["outcome"]["accept"] == 1.9164
    path = h200.phase("bench") / "report.json"
    path.write_text(path.read_text().replace('"gsm8k": 2.6', '"\\u001b[2J[/b]": 2.6'))
    assert run("result", str(h200.root)) == 0
    said = capsys.readouterr().out
    assert "\x1b" not in said and "[/b]" in said
    h200.manifest("bench").unlink()
    assert run("result", str(h200.root)) == 0
    assert "bench" in capsys.readouterr().out.splitlines()[0]
