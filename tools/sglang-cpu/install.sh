#!/usr/bin/env bash
# Install the real SGLang server, without its CUDA stack, into a venv of its own, so that the
# conformance suite can talk to SGLang itself on a machine that has no GPU.
#   install.sh [--version 0.5.23|0.5.17] [--venv DIR]
# PYTHON names the interpreter to build the venv with (3.11, with pip 22.3 or newer).
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
version=0.5.23 venv=''
while (($#)); do
  case $1 in
    --version) version=${2:?--version needs a value}; shift 2 ;;
    --venv) venv=${2:?--venv needs a directory}; shift 2 ;;
    *) echo "usage: ${0##*/} [--version V] [--venv DIR]" >&2; exit 2 ;;
  esac
done
venv=${venv:-${XDG_CACHE_HOME:-$HOME/.cache}/eagle-tui/sglang-cpu-$version}
python=${PYTHON:-python3.11}
requirements=$here/requirements-$version.txt
if [[ ! -f $requirements ]]; then
  echo "${0##*/}: version $version is not supported, only:" "$here"/requirements-*.txt >&2
  exit 2
fi

mkdir -p "$venv"
exec 9>"$venv/.install.lock"
flock 9 # a second install of the same venv waits here, then finds the work done
digest=$(cd "$here" && find install.sh "${requirements##*/}" stubs -type f ! -name '*.pyc' -print0 |
  sort -z | xargs -0 sha256sum | sha256sum | cut -d' ' -f1)
if [[ $(cat "$venv/.install.done" 2>/dev/null) == "$digest" ]]; then
  echo "$venv: SGLang $version is already installed"
  exit 0
fi
rm -f "$venv/.install.done"

# The outer pip installs into the venv, so the venv needs none (25 MB and ten seconds saved).
"$python" -m venv --without-pip "$venv"
pip() { "$python" -m pip --python "$venv/bin/python" --disable-pip-version-check "$@"; }
# --no-deps: the list is complete for a CPU; SGLang's own list would pull gigabytes of CUDA.
pip install --quiet --no-deps --no-compile --requirement "$requirements"
# Where the index serves a CUDA build of torch, it imports only beside its CUDA libraries.
if ! "$venv/bin/python" -c 'import torch' 2>/dev/null; then
  pip install --quiet --no-compile --constraint "$requirements" "$(grep '^torch==' "$requirements")"
fi

# Drop what no server process reads: C++ headers, test trees, image generation.
site=$("$venv/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
rm -rf "$site"/torch/{include,test} "$site"/sglang/multimodal_gen
find "$site/sympy" -type d -name tests -prune -exec rm -rf {} +

# A placeholder package stands in wherever the real one was not installed.
for stub in "$here"/stubs/*; do
  name=${stub##*/}
  if compgen -G "$site/$name-*.dist-info" >/dev/null; then continue; fi
  rm -rf "${site:?}/$name"
  cp -r "$stub" "$site/$name"
done

# Import what the server's three processes import. It proves the install and compiles just
# those modules, which saves most of the first start.
if ! env -u PYTHONDONTWRITEBYTECODE SGLANG_USE_CPU_ENGINE=1 TORCHDYNAMO_DISABLE=1 \
  "$venv/bin/python" - >"$venv/.install.log" 2>&1 <<'PY'; then
import sglang.launch_server, sglang.srt.entrypoints.http_server
import sglang.srt.managers.detokenizer_manager, sglang.srt.managers.scheduler
from sglang.srt.models.registry import import_model_classes
assert "LlamaForCausalLM" in import_model_classes("sglang.srt.models")
PY
  cat "$venv/.install.log" >&2
  echo "${0##*/}: SGLang $version was installed to $venv but does not import (log above)" >&2
  exit 1
fi
echo "$digest" >"$venv/.install.done"
echo "$venv: installed SGLang $version, $(du -sm "$venv" | cut -f1) MB"
