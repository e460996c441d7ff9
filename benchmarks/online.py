"""How long training waits for its batches when the target runs beside it and nothing is stored.

    python benchmarks/online.py [--device cuda] [--model DIR] [--seconds 60]

The same rows are trained on twice, each time for half of the seconds: with states read from disk
(`extract.mode = "stored"`), and with the target computing them while the drafter learns (`online`).
Prints the trained tokens a second and the share of the time in which no batch was there, after a
warm-up. The phases run as they do in a run, each in a process of its own, stopped by SIGTERM; their
starts come on top of the seconds. Without --model a random Llama is used, as in extract.py.
"""

from __future__ import annotations

import argparse
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import fmean

import torch
from extract import KIND, ON_CPU, ON_GPU, make_model, make_run

from eagle_tui.rundir import jsonl
from eagle_tui.rundir.paths import RunDir

WARM = 0.3
"""Share of the figures, the first ones, that are left out."""
LIMIT_S = 600.0
"""What a phase may take until its first figure."""


def phase(run: RunDir, name: str) -> subprocess.Popen[bytes]:
    """Start a phase by hand."""
    return subprocess.Popen([sys.executable, "-m", f"eagle_tui.pipeline.{name}", str(run.root)])


def metrics(run: RunDir) -> list[dict[str, float]]:
    """What training has told so far, about once a second."""
    path = run.events("train", 1)
    if not path.exists():
        return []
    return [row["values"] for row in jsonl.rows(path) if row["e"] == "metric"]


def measure(root: Path, model: str, mode: str, args: argparse.Namespace) -> tuple[float, float]:
    """Tokens a second and data wait of training in that mode."""
    make_run(root, model, args)
    run = RunDir.at(root)
    with run.config.open("a") as file:
        file.write(
            f'mode = "{mode}"\n[train]\ndevice = "{args.device}"\nttt_steps = {args.ttt_steps}\n'
            f"batch_tokens = {args.train_tokens}\nepochs = 1000\ncheckpoint_s = 3600.0\n"
            f"max_tokens = {args.longest}\nvalidate_steps = 1000000\n"
        )
    if code := phase(run, "extract").wait():
        raise SystemExit(f"extract ended with {code}")
    worker = phase(run, "train")
    try:
        began, seen = time.monotonic(), 0.0
        while worker.poll() is None:
            if not seen and metrics(run):
                seen = time.monotonic()
            now = time.monotonic()
            if (seen and now - seen >= args.seconds / 2) or now - began > LIMIT_S:
                break
            time.sleep(0.2)
    finally:
        worker.send_signal(signal.SIGTERM)
        worker.wait()
    found = metrics(run)
    found = found[int(len(found) * WARM) :]
    if not found:
        raise SystemExit(f"{mode}: training told no figures")
    return fmean(m["tok_s"] for m in found), fmean(m["data_wait"] for m in found)


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", help="directory of a target (default: a random one)")
    parser.add_argument("--layers", type=int, help="of the random target")
    parser.add_argument("--hidden", type=int, help="of the random target, a multiple of 64")
    parser.add_argument("--device", choices=("auto", "cpu", "cuda"), default="auto")
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--tokens", type=int, help="in the data; they are gone through again")
    parser.add_argument("--longest", type=int, default=2048)
    parser.add_argument("--ttt-steps", type=int, default=5)
    parser.add_argument("--train-tokens", type=int, help="of a batch of training")
    parser.add_argument("--dtype", default="bfloat16", help=argparse.SUPPRESS)
    parser.add_argument("--directory", type=Path, help="where the runs are made")
    args = parser.parse_args()
    cuda = torch.cuda.is_available() and args.device != "cpu"
    shape = ON_GPU if cuda else ON_CPU
    args.tokens = args.tokens or (1_000_000 if cuda else 20_000)
    args.train_tokens = args.train_tokens or (16_384 if cuda else 1_024)
    args.batch_tokens = args.train_tokens
    with tempfile.TemporaryDirectory(dir=args.directory) as temp:
        model = args.model or str(Path(temp) / "model")
        if not args.model:
            layers = args.layers or (int(shape["layers"]) if cuda else 4)
            hidden = args.hidden or (int(shape["hidden"]) if cuda else 192)
            make_model(Path(model), layers, hidden, KIND[cuda])
        model = str(Path(model).resolve())
        print(f"{'':10}{'tok/s':>10}{'data wait':>12}")
        for mode in ("stored", "online"):
            rate, wait = measure(Path(temp) / mode, model, mode, args)
            print(f"{mode:10}{rate:10,.0f}{wait:12.1%}", flush=True)


if __name__ == "__main__":
    main()
