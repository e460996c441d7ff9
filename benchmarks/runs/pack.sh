#!/usr/bin/env bash
# Pack a run that is down so that `eagle-tui replay` shows it: its state, settings and reports, without
# prompts, responses, tokens, states, weights and logs.
#   pack.sh RUN OUT.tar.xz
set -euo pipefail

run=${1:?usage: pack.sh RUN OUT.tar.xz}
out=$(realpath -m "${2:?usage: pack.sh RUN OUT.tar.xz}")
stage=$(mktemp -d)
trap 'rm -rf "$stage"' EXIT
for name in run.toml status.json desired.json state.sqlite state.sqlite-wal; do
  if [[ -e $run/$name ]]; then cp "$run/$name" "$stage/"; fi
done
"${PYTHON:-python3}" - "$stage/state.sqlite" <<'PY'
import sqlite3
import sys

# One file: without a write-ahead log, and without the pages that old history has left.
db = sqlite3.connect(sys.argv[1], isolation_level=None)
db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
db.execute("PRAGMA journal_mode=DELETE")
db.execute("VACUUM")
db.close()
PY
rm -f "$stage"/state.sqlite-*
for name in bench/report.json bench/report.md bench/manifest.json drafter/manifest.json \
  drafter/export/config.json hidden/manifest.json; do
  if [[ -e $run/$name ]]; then install -D "$run/$name" "$stage/$name"; fi
done
tar -C "$stage" --sort=name --owner=0 --group=0 --mtime=@0 -cJf "$out" .
echo "$out: $(stat -c %s "$out") bytes"
