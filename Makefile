# The two commands of the README are `make demo` and `make test`; both do all set-up by themselves.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
ARGS ?=

export OMP_NUM_THREADS ?= 1
# Tests start hundreds of processes: none of them is to compile all modules anew.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo test lint types docs pytest test-sglang pictures cast clean

demo: $(READY)
	@if [ -t 1 ]; then $(BIN)/eagle-tui demo $(ARGS); else $(BIN)/eagle-tui demo --headless $(ARGS); fi

# Types are checked beside the tests, which leave a core idle for longer than that takes.
test: lint
	@$(MAKE) --no-print-directory -j2 types pytest

$(READY): pyproject.toml setup.py constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[pipeline,dev]'
	@touch $@

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(READY)
	$(BIN)/mypy

# Most tests wait for processes, so three at a time finish sooner, also on two cores.
JOBS ?= 3
pytest: $(READY)
	$(BIN)/python -m pytest -n $(JOBS) --dist loadfile --no-loadscope-reorder $(ARGS)

# Real SGLang on this machine's CPU: installed into a cache of its own at the first time.
SGLANG_VERSION ?= 0.5.23
test-sglang: $(READY)
	tools/sglang-cpu/install.sh --version $(SGLANG_VERSION)
	EAGLE_TUI_SGLANG_VERSION=$(SGLANG_VERSION) $(BIN)/python -m pytest -m sglang $(ARGS)

# Pages that are made from the code.
docs: $(READY)
	$(BIN)/python tools/make_docs.py

# Pictures of the screens in docs/, from a recorded scene, and of its result from a recorded run.
SHOT = $(BIN)/python tools/screenshot.py tests/ui/data/kimi.json
ENDED = /tmp/runs/smollm2
pictures: $(READY)
	$(SHOT) docs/screen.svg --size 200x50
	$(SHOT) docs/screens/datasets.svg --size 160x45 --press 2
	$(SHOT) docs/screens/server.svg --size 160x45 --press 4
	$(SHOT) docs/screens/gpus.svg --size 160x45 --press 5
	$(SHOT) docs/screens/phases.svg --size 160x45 --press 8
	mkdir -p $(ENDED) && tar -xJf tests/replay/data/h200-smollm2.tar.xz -C $(ENDED)
	$(BIN)/python tools/screenshot.py $(ENDED)/status.json docs/screens/result.svg --size 160x45 \
		--run $(ENDED) --press 9
	rm -r $(ENDED)

# A short cast of the demo, recorded in a real tmux; it takes as long as the demo does.
cast: $(READY)
	$(BIN)/python tools/cast.py docs/demo.cast $(ARGS)

clean:
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis
