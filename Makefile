# One entry to everything. CI calls the same targets.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
PIP := $(BIN)/pip install --quiet --disable-pip-version-check
# Which torch: any version from 2.11 on, of any build that pip finds; empty for the one that PYTHON has already.
TORCH ?= torch==2.13.0
GPU_WORKERS ?= 4

.PHONY: setup check test gpu demo bench clean help

help:            ## list the targets
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*##/\t/'

setup: $(READY)  ## make the virtual environment with pinned dependencies
$(READY): requirements.lock requirements-cpu.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Python 3.11 or newer is needed: make PYTHON=/path/to/python3.11"; exit 1; }
	@$(PYTHON) -m venv $(if $(TORCH),,--system-site-packages) $(VENV) || { echo "the venv module is missing: apt-get install python3-venv"; exit 1; }
	$(if $(TORCH),$(PIP) -c requirements.lock $(TORCH))
	$(PIP) -r requirements.lock $$($(BIN)/python -c 'import triton' 2>/dev/null || echo -r requirements-cpu.lock)
	$(PIP) --no-deps --no-build-isolation -e .
	@touch $@

check: $(READY)  ## lint, types, layers and the length report
	$(BIN)/ruff format --check src tests benchmarks examples docs tools
	$(BIN)/ruff check src tests benchmarks examples docs tools
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache
	$(BIN)/python tools/lengths.py

test: $(READY)   ## all tests; no GPU, no network
	$(BIN)/python -m pytest -n 2 --dist loadgroup --reruns 1 -rR

gpu: $(READY)    ## the judge's score and the tests that need a GPU; a skip is a failure
	$(BIN)/kernelwright selftest --device cuda --workers $(GPU_WORKERS)
	$(BIN)/python -m pytest tests/gpu --require-gpu -m "not alone" -n $(GPU_WORKERS)
	$(BIN)/python -m pytest tests/gpu --require-gpu -m alone -n0

demo: $(READY)   ## optimise a bundled operation on the CPU and write an HTML report
	$(BIN)/kernelwright optimize rms_norm --budget 40s --out kernelwright-out/demo

bench: $(READY)  ## the CPU results table (about an hour alone on the machine)
	$(BIN)/python benchmarks/cpu.py

clean:           ## remove the environment and what the demo wrote
	rm -rf $(VENV) kernelwright-out
