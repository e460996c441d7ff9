#!/usr/bin/env bash
# Serve a model with the real SGLang on the CPU, in the foreground (install.sh comes first).
#   serve.sh --model DIR --port P [--version V] [--venv DIR] [SGLang flags...]
# Stop it with SIGTERM or SIGINT to this very process: the script becomes the server.
set -euo pipefail

version=0.5.23 venv='' model='' port='' extra=()
while (($#)); do
  case $1 in
    --version) version=${2:?--version needs a value}; shift 2 ;;
    --venv) venv=${2:?--venv needs a directory}; shift 2 ;;
    --model) model=${2:?--model needs a directory}; shift 2 ;;
    --port) port=${2:?--port needs a number}; shift 2 ;;
    *) extra+=("$1"); shift ;;
  esac
done
if [[ -z $model || -z $port ]]; then
  echo "usage: ${0##*/} --model DIR --port P [--version V] [--venv DIR] [SGLang flags...]" >&2
  exit 2
fi
venv=${venv:-${XDG_CACHE_HOME:-$HOME/.cache}/eagle-tui/sglang-cpu-$version}
if [[ ! -f $venv/.install.done ]]; then
  echo "${0##*/}: nothing installed at $venv; run install.sh --version $version first" >&2
  exit 1
fi

export SGLANG_USE_CPU_ENGINE=1  # select the CPU platform
export TORCHDYNAMO_DISABLE=1    # no torch.compile: it needs a compiler and a slow start
export HF_HUB_OFFLINE=1         # the model is a local directory
# A crashed server would otherwise sit for a minute over core dumps and stack dumps.
export SGLANG_CUDA_COREDUMP_BEFORE_CRASH=0 SGLANG_PYSPY_DUMP_BEFORE_CRASH=0
# More threads than free cores spin against each other and are many times slower.
export OMP_NUM_THREADS=${OMP_NUM_THREADS:-1}

# Without --sleep-on-idle a server that nobody asks for anything takes a whole core.
# The caller's flags come last, so they win over these.
exec "$venv/bin/python" -m sglang.launch_server \
  --model-path "$model" --port "$port" --device cpu \
  --attention-backend torch_native --sampling-backend pytorch --grammar-backend none \
  --disable-overlap-schedule --skip-server-warmup --enable-metrics --sleep-on-idle \
  --mem-fraction-static 0.3 --max-total-tokens 16384 \
  "${extra[@]}"
