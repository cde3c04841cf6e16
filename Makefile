# Everything starts here: `make demo` on a fresh machine, `make test` to check a change.
PYTHON ?= python3
# URL of an index of torch's CPU builds, where the usual index offers the CUDA build alone.
TORCH_INDEX ?=
# Folder that `make learning` writes its runs to.
RUNS ?= runs

SETUP := $(PYTHON) scripts/setup.py --torch-index "$(TORCH_INDEX)"
BIN := .venv/bin

.DEFAULT_GOAL := help
.PHONY: help demo test install lint bench learning clean

help:  ## this list
	@awk -F ':.*##' '/^[a-z]+:.*##/ {printf "make %-9s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo:  ## set up, then train, export and prove a first policy
	@$(SETUP)
	@$(BIN)/servorl demo

test:  ## set up, then every check and test, with the time of each stage
	@$(SETUP) --dev
	@$(BIN)/python scripts/test.py

install:  ## set up; recompiles what changed
	@$(SETUP)

lint:  ## format, lint and type checks alone
	@$(SETUP) --dev
	@$(BIN)/python scripts/test.py format lint types

bench:  ## every benchmark, with the other libraries
	@$(SETUP)
	@$(BIN)/servorl bench all --peers

learning:  ## the long training runs behind the tables in docs/ (hours)
	@$(SETUP)
	@$(BIN)/python scripts/learning.py --runs $(RUNS)

clean:  ## remove what was built; .venv stays
	rm -rf build dist .bench .pytest_cache .mypy_cache .ruff_cache .hypothesis
