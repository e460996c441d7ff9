#!/usr/bin/env bash
# The same run twice: once with one rank, once from one rank to two in the middle of the extraction and
# again early in the training; then both are compared. A step of two ranks learns from two packs, so the
# one rank trains with packs of twice the tokens: then both take about as many steps.
#   ranks.sh DIR
# EAGLE_TUI is the program, PYTHON its Python; ROWS the rows of the data (600), TRAIN_AT the training
# step after which it is stopped (20), TIMEOUT_S the longest wait for one phase (900).
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
dir=${1:?usage: ranks.sh DIR}
export EAGLE_TUI=${EAGLE_TUI:-eagle-tui}
python=${PYTHON:-python3}
rows=${ROWS:-600}
wait_for() { "$python" "$here/wait.py" "$@" --timeout "${TIMEOUT_S:-900}"; }
tell() { printf '[%4d s] %s\n' "$SECONDS" "$*"; }
set_key() { sed -i "/^\[$2\]/,/^\[/ s/^$3 = .*/$3 = $4/" "$1/run.toml"; }

for name in one two; do
  mkdir -p "$dir/$name/data"
  cp "$here/ranks.toml" "$dir/$name/run.toml"
  "$python" - "$dir/$name/data/arith.jsonl" "$rows" <<'PY'
import sys
from pathlib import Path

from eagle_tui.pipeline.tiny.tasks import write_dataset

write_dataset(Path(sys.argv[1]), "arith", int(sys.argv[2]), 1, "messages", answers=True)
PY
done

run=$dir/two
$EAGLE_TUI up -d "$run"
wait_for "$run" --phase extract --done $((rows / 4))
$EAGLE_TUI down "$run" --yes
tell "extraction stopped with one rank"
set_key "$run" extract nproc 2
$EAGLE_TUI up -d "$run"
wait_for "$run" --phase extract
tell "extraction done with two"
wait_for "$run" --phase train --done "${TRAIN_AT:-20}"
$EAGLE_TUI down "$run" --yes
tell "training stopped with one rank"
set_key "$run" train nproc 2
$EAGLE_TUI up -d "$run"
wait_for "$run" --phase train
$EAGLE_TUI down "$run" --yes
tell "training done with two"

set_key "$dir/one" train batch_tokens 2048
$EAGLE_TUI up -d "$dir/one"
wait_for "$dir/one" --phase train
$EAGLE_TUI down "$dir/one" --yes
tell "all of it done with one"
"$python" "$here/compare.py" "$dir/one" "$run"
