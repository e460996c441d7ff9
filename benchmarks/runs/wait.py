"""Wait until a run has come to a point; for the scripts beside this file.

    python wait.py RUN --phase extract [--state done] [--done 40]
    python wait.py RUN --tok-s 500          all servers together
    python wait.py RUN --effect N           what N retunes brought is known

Looks once a second through the command line (`EAGLE_TUI`, default `eagle-tui`). Exit code 0: it is
there; 1: the phase failed, or it took longer than --timeout seconds.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import subprocess
import sys
import time
from typing import Any


def eagle(*words: str) -> str:
    """What a command of the program prints."""
    argv = [*shlex.split(os.environ.get("EAGLE_TUI", "eagle-tui")), *words]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    return done.stdout


def effects(run: str) -> int:
    """Retunes whose effect was measured, one of each server counted by itself."""
    launches = map(json.loads, eagle("launches", run, "--json").splitlines())
    return len({launch["retune"] for launch in launches if launch["effect"]})


def there(status: dict[str, Any], args: argparse.Namespace) -> bool:
    """Whether the run has come to that point."""
    if args.tok_s is not None:
        return sum(float(s["tok_s"] or 0.0) for s in status["servers"]) >= float(args.tok_s)
    phase = next(p for p in status["phases"] if p["name"] == args.phase)
    if phase["state"] == "failed":
        raise SystemExit(f"{args.phase} failed: {phase['reason']}")
    done = phase["state"] == "done" or (args.done is not None and (phase["done"] or 0) >= args.done)
    return bool(done if args.done is not None else phase["state"] == args.state)


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run")
    parser.add_argument("--phase", default="generate")
    parser.add_argument("--state", default="done")
    parser.add_argument("--done", type=int, help="rows or steps of the phase")
    parser.add_argument("--tok-s", type=float)
    parser.add_argument("--effect", type=int)
    parser.add_argument("--timeout", type=float, default=600.0)
    args = parser.parse_args()
    by = time.monotonic() + args.timeout
    while time.monotonic() < by:
        if args.effect is not None:
            if effects(args.run) >= args.effect:
                return
        else:
            told = eagle("status", args.run, "--json")
            if told and there(json.loads(told), args):
                return
        time.sleep(1.0)
    sys.exit(f"not there after {args.timeout:.0f} s: {' '.join(sys.argv[2:])}")


if __name__ == "__main__":
    main()
