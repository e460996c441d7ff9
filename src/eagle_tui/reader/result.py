"""What the benchmark found: RUN/bench/report.json, and where all that a run leaves lies.

The file may be of another version, cut, or edited by hand: whatever of it can be understood is
given, and nothing in it raises or comes through as more than plain text.
"""

from __future__ import annotations

import math
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from eagle_tui.reader.fields import LARGEST, as_dict, as_number, as_whole
from eagle_tui.result import (
    BenchReport,
    DatasetResult,
    Identity,
    Outcome,
    ResultFile,
    ResultRecord,
    SettingResult,
    Speedup,
)
from eagle_tui.rundir.paths import RunDir
from eagle_tui.text import parse_json, scrub, visible

MOST_BYTES = 4 << 20
"""Of a report; a sweep of a thousand settings has a tenth of it."""
MOST_ROWS = 500
MOST_TEXT = 2000
_BUILTIN = "builtin:"
_SECRET = "key"
"""A flag with this in its name holds what is nobody's business."""


class _Unreadable(ValueError):
    """A file that is there and cannot be used; `str()` says why."""


def read(run: RunDir, until: float | None = None) -> ResultRecord:
    """What there is. `until`: the Unix time at which the run is looked at; a benchmark that was
    done after it is not done yet. What cannot be read is told in `problem`; OSError is passed on
    where a file is there and the system refuses it."""
    try:
        made = _body(run.manifest("bench"))
    except _Unreadable as error:
        return ResultRecord(problem=scrub(str(error)))
    made_at = (as_number(made.get("made_at")) or 0.0) if made is not None else None
    if made is None or made_at is None or (until is not None and made_at > until):
        return ResultRecord(files=_files(run) if until is None else ())
    path, problem, body = run.phase("bench") / "report.json", "", None
    try:
        if (body := _body(path)) is None:
            problem = f"{path}: the report of the benchmark is gone; `rerun` of bench makes it anew"
    except _Unreadable as error:
        problem = str(error)
    if body is not None:
        report = parse(body, export=run.phase("train") / "export")
    else:
        # The manifest holds the most important of it.
        report = BenchReport(outcome=of_counts(made.get("counts")))
    return ResultRecord(made_at=made_at, report=report, problem=scrub(problem), files=_files(run))


def of_counts(counts: object) -> Outcome:
    """The figures that the manifest of the benchmark holds, whatever stands in it."""
    body = as_dict(counts)
    return Outcome(
        accept=as_number(body.get("accept_length")),
        baseline_tok_s=as_number(body.get("baseline_tok_s")),
        drafter_tok_s=as_number(body.get("drafter_tok_s")),
        speedup=_speedup(body.get("speedup")),
        identical=_flag(body.get("greedy_identical")),
        verdict=_text(body.get("verdict")),
    )


def parse(body: object, export: Path | None = None) -> BenchReport:
    """The report from its JSON, whatever that is. `export`: where the drafter lies now, since the
    run may have been moved."""
    whole = as_dict(body)
    accept, settings = as_dict(whole.get("accept_length")), as_dict(whole.get("settings"))
    chosen = tuple(as_whole(settings.get(k)) for k in ("steps", "topk", "draft_tokens"))
    here = (*chosen, as_whole(settings.get("concurrency")))
    serve, flags = _serving(as_dict(whole.get("provenance")), settings, export)
    return BenchReport(
        outcome=Outcome(
            accept=as_number(accept.get("overall")),
            baseline_tok_s=as_number(as_dict(whole.get("baseline")).get("tok_s")),
            drafter_tok_s=as_number(as_dict(whole.get("drafter")).get("tok_s")),
            speedup=_speedup(whole.get("speedup")),
            identical=_flag(whole.get("greedy_identical")),
            verdict=_text(whole.get("verdict")),
        ),
        engine=_text(settings.get("engine")),
        prompts=as_whole(settings.get("prompts")),
        temperature=as_number(settings.get("temperature")),
        simulated=as_number(whole.get("simulated_accept_length")),
        identity=_identity(as_dict(whole.get("identity"))),
        conditional=tuple(_share(item) for item in _list(accept.get("conditional"))),
        datasets=_datasets(as_dict(accept.get("by_dataset")), as_dict(whole.get("by_dataset"))),
        settings=tuple(_setting(as_dict(item), here) for item in _list(whole.get("sweep"))),
        hints=tuple(_text(item) for item in _list(whole.get("hints")) if isinstance(item, str)),
        serve=serve,
        flags=flags,
    )


def _body(path: Path) -> dict[str, Any] | None:
    """The JSON object in a file; None when there is no file."""
    try:
        with path.open("rb") as file:
            data = file.read(MOST_BYTES + 1)
    except FileNotFoundError:
        return None
    except IsADirectoryError:
        raise _Unreadable(f"{path}: a directory, not a file") from None
    if len(data) > MOST_BYTES:
        raise _Unreadable(f"{path}: larger than {MOST_BYTES >> 20} MiB, which no report is")
    try:
        body = parse_json(data)
    except ValueError as error:
        raise _Unreadable(f"{path}: not valid JSON ({error})") from error
    if not isinstance(body, dict):
        raise _Unreadable(f"{path}: not a JSON object")
    return body


def _files(run: RunDir) -> tuple[ResultFile, ...]:
    bench, drafter = run.phase("bench"), run.phase("train")
    wanted = (
        ("report", bench / "report.md"),
        ("model card", drafter / "export" / "README.md"),
        ("for SGLang", drafter / "export"),
        ("for vLLM", drafter / "export-speculators"),
    )
    return tuple(
        ResultFile(label=label, path=scrub(str(path))) for label, path in wanted if path.exists()
    )


def _datasets(accepts: dict[str, Any], speeds: dict[str, Any]) -> tuple[DatasetResult, ...]:
    found = []
    for name in list(dict.fromkeys((*accepts, *speeds)))[:MOST_ROWS]:
        speed = as_dict(speeds.get(name))
        base, draft = as_number(speed.get("baseline_tok_s")), as_number(speed.get("drafter_tok_s"))
        gain = _speedup(speed.get("speedup"))
        if gain is None and base and draft is not None:
            # Reports of earlier versions hold no interval for a dataset.
            gain = _speedup({"mean": draft / base})
        found.append(
            DatasetResult(
                name=_text(name),
                accept=as_number(accepts.get(name)),
                baseline_tok_s=base,
                drafter_tok_s=draft,
                speedup=gain,
            )
        )
    return tuple(found)


def _setting(body: dict[str, Any], best: tuple[int | None, ...]) -> SettingResult:
    steps, topk, tokens = (as_whole(body.get(k)) for k in ("steps", "topk", "draft_tokens"))
    concurrency, failed = as_whole(body.get("concurrency")), _text(body.get("failed"))
    return SettingResult(
        steps=steps,
        topk=topk,
        draft_tokens=tokens,
        concurrency=concurrency,
        accept=as_number(body.get("accept_length")),
        baseline_tok_s=as_number(body.get("baseline_tok_s")),
        drafter_tok_s=as_number(body.get("drafter_tok_s")),
        speedup=_speedup(body.get("speedup")),
        failed=failed,
        best=not failed and None not in best and (steps, topk, tokens, concurrency) == best,
    )


def _identity(body: dict[str, Any]) -> Identity | None:
    compared, equal = as_whole(body.get("compared")), as_whole(body.get("equal"))
    if compared is None or equal is None:
        return None
    alone = as_dict(body.get("alone"))
    return Identity(
        compared=compared,
        equal=equal,
        ties=as_whole(body.get("ties")) or 0,
        example=_text(body.get("example")),
        alone_concurrency=as_whole(alone.get("concurrency")),
        alone_equal=as_whole(alone.get("equal")),
    )


def _serving(
    made: dict[str, Any], settings: dict[str, Any], export: Path | None
) -> tuple[str, str]:
    """The command line that serves the drafter, and the other flags of the server measured."""
    target, serve = _text(made.get("target")), as_dict(made.get("serve"))
    chosen = [as_whole(serve.get(key)) for key in ("steps", "topk", "draft_tokens")]
    command = ""
    if target and not target.startswith(_BUILTIN) and None not in chosen:
        names = ("num-steps", "eagle-topk", "num-draft-tokens")
        words = ["python", "-m", "sglang.launch_server", "--model-path", target]
        words += ["--speculative-algorithm", "EAGLE3"]
        words += ["--speculative-draft-model-path", str(export) if export else "DIRECTORY"]
        for name, value in zip(names, chosen, strict=True):
            words += [f"--speculative-{name}", str(value)]
        command = _text(shlex.join(words))
    return command, _flags(as_dict(settings.get("flags")))


def _flags(flags: Mapping[str, Any]) -> str:
    # Imported here: it comes with the settings of run.toml, which a screen does without.
    from eagle_tui.config.command import flag_words

    plain: dict[str, Any] = {}
    for name, value in list(flags.items())[:MOST_ROWS]:
        if name.startswith("speculative"):
            continue
        if isinstance(value, list):
            value = [_text(item) for item in value[:MOST_ROWS]]
        elif not isinstance(value, bool):
            value = _text(value)
        plain[_text(name)] = "***" if _SECRET in name.lower() else value
    return _text(shlex.join(flag_words(plain)))


def _speedup(value: object) -> Speedup | None:
    body = as_dict(value)
    mean, low, high = (as_number(body.get(key)) for key in ("mean", "low", "high"))
    if mean is None:
        return None
    whole = low is not None and high is not None and low <= high
    return Speedup(mean=mean, low=low if whole else None, high=high if whole else None)


def _list(value: object) -> list[Any]:
    return value[:MOST_ROWS] if isinstance(value, list) else []


def _share(value: object) -> float | None:
    number = as_number(value)
    return number if number is not None and number <= 1 else None


def _flag(value: object) -> bool | None:
    return value if isinstance(value, bool) else None


def _text(value: object) -> str:
    """One line of harmless text, at most MOST_TEXT long; none of what is no text or number."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return ""
    if isinstance(value, str):
        return " ".join(visible(value[:MOST_TEXT]).split())
    try:
        return str(value) if math.isfinite(value) and abs(value) <= LARGEST else ""
    except OverflowError:
        return ""
