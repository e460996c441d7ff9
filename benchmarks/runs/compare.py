"""Whether two runs extracted the same samples and trained to the same end.

    python compare.py RUN OTHER [--states 0.02] [--loss 0.1]

Samples: the same ids with the same tokens and masks, and states that differ by no more than
`--states` of their own size (norm of the difference over norm). Training: as many rows, each one
once an epoch, and accuracy and accept length on the held-out rows that differ by no more than
`--loss` (relative): packs are filled in another way, and a few steps more or less are taken, so the
ends are alike and not equal. That equal packs give equal weights is shown by the tests.
Exit code 1 when something differs.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from eagle_tui.pipeline.hidden import HiddenRow, find_hidden, open_hidden
from eagle_tui.rundir import manifest
from eagle_tui.rundir.paths import RunDir

STATES = ("aux", "last")


def rows(run: RunDir) -> dict[str, HiddenRow]:
    """Every extracted row by its id; mapped, not read."""
    found: dict[str, HiddenRow] = {}
    for split in ("train", "val"):
        for path in find_hidden(run, split):
            shard = open_hidden(path)
            for entry, row in zip(shard.index(), shard.rows(), strict=True):
                if entry["id"] in found:
                    raise SystemExit(f"{run.root}: {entry['id']} is there twice")
                found[entry["id"]] = row
    return found


def samples(one: RunDir, other: RunDir, most: float) -> Iterator[str]:
    """What differs of the extracted rows."""
    mine, theirs = rows(one), rows(other)
    worst = 0.0
    for id in mine.keys() & theirs.keys():
        a, b = mine[id], theirs[id]
        if not (a.ids.equal(b.ids) and a.mask.equal(b.mask)):
            yield f"{id}: other tokens"
            continue
        for name in STATES:
            x, y = getattr(a, name).float(), getattr(b, name).float()
            worst = max(worst, float((x - y).norm() / x.norm().clamp(min=1e-9)))
    print(f"{len(mine):,} and {len(theirs):,} rows; states differ by {worst:.2g} at most")
    if mine.keys() != theirs.keys():
        yield f"{len(mine.keys() ^ theirs.keys())} rows are only in one of them"
    if worst > most:
        yield f"states differ by {worst:.2g}, more than {most:g}"


def training(one: RunDir, other: RunDir, most: float) -> Iterator[str]:
    """What differs of what training came to."""
    mine, theirs = counts(one), counts(other)
    for name in ("rows", "tokens", "steps", "accept"):
        print(f"{name:8}{mine[name]:>12}{theirs[name]:>12}")
    if mine["rows"] != theirs["rows"]:
        yield "other rows were trained on"
    pairs = {"accept length": (mine["accept"], theirs["accept"])}
    pairs |= {
        f"accuracy of step {k}": p
        for k, p in enumerate(zip(mine["acc"], theirs["acc"], strict=True))
    }
    for name, (a, b) in pairs.items():
        apart = abs(a - b) / a if a else 0.0
        print(f"{name}: {a:.4f} and {b:.4f}, {apart:.1%} apart")
        if apart > most:
            yield f"{name} differs by {apart:.1%}, more than {most:.0%}"


def counts(run: RunDir) -> dict[str, Any]:
    """Counts of the manifest of phase 5."""
    made = manifest.read(run, "train")
    if made is None:
        raise SystemExit(f"{run.root}: train is not done")
    return made.counts


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run", type=Path)
    parser.add_argument("other", type=Path)
    parser.add_argument("--states", type=float, default=0.02)
    parser.add_argument("--loss", type=float, default=0.1)
    args = parser.parse_args()
    one, other = RunDir.at(args.run), RunDir.at(args.other)
    faults = [*samples(one, other, args.states), *training(one, other, args.loss)]
    for fault in faults:
        print(f"DIFFERS: {fault}")
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
