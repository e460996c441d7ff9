#!/usr/bin/env bash
# Retune a run under load, in turn: settings that work, one that does not start (it is taken back), and
# some that are refused before anything is stopped. What each brought is told by `eagle-tui launches`.
#   retune.sh RUN
# RETUNES overrides the orders, LOAD_S the seconds of load before the first (60), TOK_S from when on it
# counts as load (500), TIMEOUT_S the longest wait for one step (400), EAGLE_TUI the program.
set -uo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
run=${1:?usage: retune.sh RUN}
export EAGLE_TUI=${EAGLE_TUI:-eagle-tui}
timeout_s=${TIMEOUT_S:-400}
# flashinfer stands for a backend that is not installed there: the server dies of it at its start.
default='max-running-requests=256 mem-fraction-static=0.5 attention-backend=flashinfer mem-fraction-static=1.5 no-such-flag=3'
read -ra orders <<<"${RETUNES:-$default}"
wait_for() { "${PYTHON:-python3}" "$here/wait.py" "$run" --timeout "$timeout_s" "$@"; }
tell() { printf '[%4d s] %s\n' "$SECONDS" "$*"; }

$EAGLE_TUI up -d "$run" || exit 1
wait_for --tok-s "${TOK_S:-500}" || exit 1
tell "under load; the first order in ${LOAD_S:-60} s"
sleep "${LOAD_S:-60}"
effects=0
for order in "${orders[@]}"; do
  $EAGLE_TUI retune "$run" "$order" --yes --wait "$timeout_s"
  code=$?
  tell "$order: exit code $code"
  if ((code == 0)); then
    effects=$((effects + 1))
    if wait_for --effect "$effects"; then
      $EAGLE_TUI launches "$run" --json | tail -1 | "${PYTHON:-python3}" -c 'import json, sys; print("  ", json.load(sys.stdin)["effect"])'
    else
      tell "the effect is not known"
    fi
  else
    # Taken back or refused: it has to be at work again before the next order.
    wait_for --tok-s "${TOK_S:-500}" || exit 1
  fi
done
$EAGLE_TUI launches "$run"
$EAGLE_TUI down "$run" --yes
