"""A run directory as it is after days of generation: responses, history, snapshots, events.

    python benchmarks/largerun.py RUN --responses 1000000 --days 7

The scene is that of the real run: eight GPUs, ten datasets. Rows are written directly, so a million
responses take a minute; lengths are those of a heavy-tailed run, while ids and texts are short, so
that a million rows take 1.6 GB and not 25.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from harness import WORD

from eagle_tui import series, snapshots
from eagle_tui.config import load_config
from eagle_tui.history import TIERS, Cell
from eagle_tui.history import pack as pack_row
from eagle_tui.protocol import Status
from eagle_tui.rundir import manifest
from eagle_tui.rundir.manifest import Manifest
from eagle_tui.rundir.paths import RunDir
from eagle_tui.supervisor.store import Store

SCENE = Path(__file__).parent.parent / "tests" / "ui" / "data" / "kimi.json"
WORDS = 100
"""Tokens and words of a stored row."""
LONGEST = 16_384
EVENTS = 20_000
MARKS = 200
BATCH = 10_000


@dataclass(frozen=True)
class Share:
    """One dataset: how many prompts it has and how many of them are answered."""

    name: str
    native: bool
    prompts: int
    done: int


def shares(responses: int, left: int) -> list[Share]:
    """The datasets of the scene, in which `responses` are stored, all but the last three sets and a
    part of the one before them being done, and `left` prompts wait."""
    rows = Status.from_json(json.loads(SCENE.read_text(encoding="utf-8"))).datasets
    made = [row for row in rows if row.kind == "prompts"]
    ready, waiting = made[:6], made[5:]
    whole = sum(row.prompts or 0 for row in ready)
    found = []
    for row in rows:
        done = responses * (row.prompts or 0) // whole if row in ready else 0
        if row is ready[-1]:
            done = responses - sum(s.done for s in found if not s.native)
        more = left // len(waiting) if row in waiting else 0
        if row.kind == "native":
            done = row.prompts or 0
        found.append(Share(row.name, row.kind == "native", done + more, done))
    return found


def make(
    root: Path, *, responses: int, days: float, left: int, url: str, settings: str = ""
) -> None:
    """Write the run. Its supervisor goes on with generation by the server at `url`."""
    run = RunDir.at(root)
    now = time.time()
    began = now - days * 86400
    parts = shares(responses, left)
    for name in ("prepare", "generate"):
        run.phase(name).mkdir(parents=True)
    run.events("prepare", 1).parent.mkdir()
    run.logs.mkdir()
    run.config.write_text(_config(parts, url, settings), encoding="utf-8")
    for part in parts:
        _prompts(run, part)
    lengths = _lengths(random.Random(7))
    _responses(run, parts, lengths, began, now)
    config = load_config(run.config)
    made = Manifest(
        phase="prepare", made_at=began, attempt=1,
        inputs=manifest.inputs_of(config, run, "prepare"),
        counts={"prompts": sum(part.prompts for part in parts)},
    )  # fmt: skip
    manifest.write(run, made)
    _state(run, parts, began, now, days)


def _config(parts: list[Share], url: str, settings: str) -> str:
    head = (
        '[run]\nname = "kimi-k25-eagle3"\n[target]\nmodel = "builtin:tiny"\n'
        f'[[server]]\nname = "sglang"\nurl = "{url}"\n[generate]\n{settings}\n'
    )
    sets = (
        f'[[dataset]]\nname = "{part.name}"\nsource = "{part.name}.jsonl"\n'
        f'kind = "{"native" if part.native else "prompts"}"\n'
        for part in parts
    )
    return head + "".join(sets)


def _key(number: int) -> bytes:
    return b"%024x" % number


def _prompts(run: RunDir, part: Share) -> None:
    ids = b",".join(b"%d" % (WORD + n % 300) for n in range(20))
    talk = b'[{"role":"user","content":"' + b"word " * 10 + b'"}]'
    row = b'{"id":"%s","dataset":"' + part.name.encode() + b'","ordinal":0,"conversation":' + talk
    row += b',"prompt_ids":[' + ids + b'],"opened":true,"n_turns":1}\n'
    if part.native:
        talk = talk[:-1] + b',{"role":"assistant","content":"word"}]'
        row = b'{"id":"%s","dataset":"' + part.name.encode() + b'","ordinal":0,"conversation":'
        row += talk + b',"token_ids":[' + ids + b'],"prompt_tokens":10,"n_turns":1}\n'
    with run.prompts(part.name).open("wb") as file:
        for number in range(part.prompts):
            file.write(row % _key(number))


def _lengths(chance: random.Random) -> list[tuple[int, bytes]]:
    """Completion tokens and state of responses to come, as a real run had them: mean 1,416, median
    646, a few cut at the limit."""
    sigma = math.sqrt(2 * math.log(1416 / 646))
    found = []
    for _ in range(65_536):
        tokens = min(LONGEST, max(1, round(chance.lognormvariate(math.log(646), sigma))))
        state = b"truncated" if tokens == LONGEST else b"complete"
        if state == b"complete" and chance.random() < 0.01:
            state = b"loop"
        found.append((tokens, state))
    return found


def _responses(
    run: RunDir, parts: list[Share], lengths: list[tuple[int, bytes]], began: float, now: float
) -> None:
    """The responses of each dataset, and the event log of the worker that made them."""
    total = max(1, sum(part.done for part in parts if not part.native))
    step = (now - 60 - began) / total
    number = 0
    with run.events("prepare", 1).open("w", encoding="utf-8") as log:
        log.write(json.dumps({"e": "start", "at": began, "pid": 1, "phase": "prepare"}) + "\n")
        for part in parts:
            told = {"e": "dataset", "at": began, "name": part.name, "prompts": part.prompts}
            log.write(json.dumps(told) + "\n")
        log.write(json.dumps({"e": "end", "at": began + 300, "outcome": "done"}) + "\n")
    with run.events("generate", 1).open("wb") as log:
        log.write(b'{"e":"start","at":%.3f,"pid":1,"phase":"generate"}\n' % began)
        for part in parts:
            if part.native:
                continue
            log.write(
                b'{"e":"dataset","at":%.3f,"name":"%s","prompts":%d,"states":{},"tokens":0}\n'
                % (began, part.name.encode(), part.prompts)
            )
        for part in parts:
            if part.native or not part.done:
                continue
            name = part.name.encode()
            row = _row_format(part.name)
            with run.responses(part.name).open("wb") as file:
                for mine in range(part.done):
                    tokens, state = lengths[number % len(lengths)]
                    at = began + number * step
                    key = _key(mine)
                    file.write(row % (key, state, tokens, tokens * 3 // 4, at))
                    log.write(
                        b'{"e":"result","at":%.3f,"ds":"%s","id":"%s","state":"%s","pt":20,"ct":%d,'
                        b'"rt":%d,"s":31.4,"stored":true}\n'
                        % (at, name, key, state, tokens, tokens * 3 // 4)
                    )
                    number += 1
        log.write(b'{"e":"end","at":%.3f,"outcome":"stopped","reason":""}\n' % (now - 60))


def _row_format(dataset: str) -> bytes:
    """A stored row of that dataset with places for id, state, tokens, reasoning tokens, time."""
    from eagle_tui.pipeline.generation.responses import encode, response_row

    ids = [WORD + n % 300 for n in range(WORDS)]
    row = response_row(
        id="@ID@", dataset=dataset, state="@STATE@", finish_reason="stop",  # type: ignore[arg-type]
        prompt_tokens=20, completion_tokens=111_111, reasoning_tokens=222_222, endpoint="sglang",
        attempt=1, pieces=1, at=333_333.5, flag="", prompt_ids=[WORD] * 20, output_ids=ids,
        reasoning="word " * (WORDS // 2), content="word " * (WORDS // 2),
        conversation=[{"role": "user", "content": "word " * 10}],
    )  # fmt: skip
    line = encode(row)
    for there, place in (
        (b"@ID@", b"%s"), (b"@STATE@", b"%s"), (b"111111", b"%d"), (b"222222", b"%d"),
        (b"333333.5", b"%.3f"),
    ):  # fmt: skip
        assert line.count(there) == 1
        line = line.replace(there, place)
    return line


def status_at(base: Status, parts: list[Share], share: float, at: float, began: float) -> Status:
    """The run when `share` of what is stored now was there."""
    stored = sum(part.done for part in parts if not part.native)
    left = round(stored * share)
    wave = math.sin(at / 600)
    rows = []
    for part, row in zip(parts, base.datasets, strict=True):
        done = part.done if part.native else min(part.done, left)
        left -= 0 if part.native else done
        update = {"prompts": part.prompts, "complete": done, "tokens": done * 1416}
        rows.append(row.model_copy(update=update | {"failed": 0, "truncated": 0, "loop": 0}))
    server = base.servers[0].model_copy(
        update={"tok_s": 900 + 60 * wave, "running": 50 + round(3 * wave), "kv_usage": 0.8}
    )
    gpus = tuple(
        gpu.model_copy(update={"util": 0.97 + 0.02 * wave, "power_w": 570 + 9 * wave})
        for gpu in base.gpus
    )
    phases = tuple(
        phase.model_copy(update={"done": round(stored * share), "total": stored})
        if phase.name == "generate"
        else phase
        for phase in base.phases
    )
    return base.model_copy(
        update={
            "at": at,
            "run": base.run.model_copy(update={"started": began, "elapsed_s": at - began}),
            "datasets": tuple(rows),
            "servers": (server,),
            "gpus": gpus,
            "phases": phases,
        }
    )


def _state(run: RunDir, parts: list[Share], began: float, now: float, days: float) -> None:
    scene = json.loads(SCENE.read_text(encoding="utf-8"))
    base = Status.from_json(scene)
    base = base.model_copy(
        update={"run": base.run.model_copy(update={"dir": str(run.root)}), "alerts": ()}
    )
    store = Store(run.state)

    def at(moment: float) -> Status:
        return status_at(base, parts, (moment - began) / (now - began), moment, began)

    store.put("started", began)
    for phase, outcome in (("prepare", "done"), ("generate", "stopped")):
        token = f"benchmark-{phase}"
        store.begin("phase", phase, token, began)
        end = began + 300 if phase == "prepare" else now - 60
        store.ended(token, end, outcome=outcome, reason="", code=0)
    numbers = {name: store.add_series(name) for name in series.values(base)}
    with store.transaction():
        for t in _snapshot_times(began, now):
            store.put_snapshot(t, snapshots.pack(at(t)))
        for number in range(EVENTS):
            t = began + (now - began) * number / EVENTS
            store._db.execute(  # one by one, each looks for what is too old
                "INSERT INTO events (at, severity, source, text) VALUES (?, ?, ?, ?)",
                (t, "info", "generate", f"{1000 + number:,} responses stored"),
            )
        for number in range(MARKS):
            t = began + (now - began) * number / MARKS
            store.mark(t, "cap", f"cap b1_glaive tokens {number}M")
    for step, kept in TIERS:
        first = max(began, now - kept) if kept is not None else began
        rows = [(step, t, _tick(at(t), numbers, step)) for t in _starts(first, now, step)]
        for batch in range(0, len(rows), BATCH):
            store.put_ticks(rows[batch : batch + BATCH])
    store.close()


def _starts(first: float, now: float, step: int) -> Iterator[int]:
    yield from range(int(first // step) * step, int(now // step) * step, step)


def _tick(status: Status, numbers: dict[str, int], step: int) -> bytes:
    cells: dict[int, Cell] = {
        numbers[name]: (step, value, 0.98 * value, 1.02 * value)
        for name, value in series.values(status).items()
        if value is not None
    }
    return pack_row(cells)


def _snapshot_times(began: float, now: float) -> Iterator[float]:
    """As `eagle_tui.snapshots` keeps them."""
    t = began
    while t < now - 30:
        yield t
        age = now - t
        t += next((step for old, step in reversed(snapshots.KEPT) if age > old), snapshots.EVERY_S)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("run", type=Path)
    parser.add_argument("--responses", type=int, default=1_000_000)
    parser.add_argument("--days", type=float, default=7.0)
    parser.add_argument("--left", type=int, default=100_000, help="prompts that wait")
    parser.add_argument("--url", default="http://127.0.0.1:30000", help="the server")
    options = parser.parse_args()
    began = time.monotonic()
    make(
        options.run, responses=options.responses, days=options.days, left=options.left,
        url=options.url,
    )  # fmt: skip
    print(f"{options.run}: made in {time.monotonic() - began:.0f} s")
    print(Counter({s.name: s.done for s in shares(options.responses, options.left)}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
