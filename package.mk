# Recipes for the package itself, beside those of the Makefile; a project of one's own has none.
# Its faults can end a test process, after which `loadfile` waits for ever.
FAULTY = tests/cog_adapt/runner/gradients/test_check.py

.PHONY: test-all test-again walk mutants gpu contracts bench quality quick container faults fuzz attack leaks

test-all: $(ENV)  ## every test, of the package too, two files at a time
	@$(TESTS) --dist loadfile --ignore=$(FAULTY)
	@$(TESTS) --dist load $(FAULTY)

# A machine that stands still for seconds can fail a test that waits for a process. Three such are
# asked again, each alone; a fourth, or one that fails again, is a fault.
test-again: $(ENV)  ## the tests that failed in test-all, three at most, once more and alone
	@$(BIN)/python -c 'import json; failed = json.load(open(".pytest_cache/v/cache/lastfailed")); \
	print("failed, asked again:", *failed, sep="\n  "); raise SystemExit(len(failed) > 3)'
	@OMP_NUM_THREADS=1 $(BIN)/python -m pytest --last-failed --last-failed-no-failures none
	@$(TESTS) --dist load $(FAULTY)

walk: $(ENV)  ## 12,000 calls of two owners and an admin: none sees a byte of another (minutes)
	@OWNERS_WALK_STEPS=12000 $(BIN)/python -m pytest -n 2 tests/cog_adapt/server/api/test_owners_walk.py

mutants: $(ENV)  ## plant twenty mistakes, each alone; `make test` must see them all (minutes)
	@$(BIN)/python -m bench.house.mutants --output docs/results/house/mutants.md

gpu: $(ENV)  ## the tests that need a CUDA device
	@$(BIN)/python -m pytest -m gpu

lint: contracts

contracts: $(ENV)
	@PYTHONPATH=. $(BIN)/lint-imports

bench: $(ENV)  ## measure accuracy, adaptation time, overhead and serving; writes docs/results
	@$(BIN)/python -m bench.accuracy --output docs/results/accuracy.json
	@$(BIN)/python -m bench.adaptation --output docs/results/adaptation.json
	@$(BIN)/python -m bench.adaptation_steps --output docs/results/adaptation-steps.json
	@$(BIN)/python -m bench.overhead --output docs/results/overhead.json
	@$(BIN)/python -m bench.known --output docs/results/known.json
	@$(BIN)/python -m bench.serving --output docs/results/serving.json
	@$(BIN)/python -m bench.health --output docs/results/health.json
	@$(BIN)/python -m bench.recovery --output docs/results/recovery.json

quality: $(ENV)  ## measure the quality of adaptation on 20 rows of 20 splits (hours; goes on if cut off)
	@$(BIN)/python -m bench.quality --output docs/results/quality.json

quick: $(ENV)  ## the short form of bench: does it run?
	@$(BIN)/python -m bench.accuracy --quick
	@$(BIN)/python -m bench.adaptation --quick
	@$(BIN)/python -m bench.quality --quick
	@$(BIN)/python -m bench.adaptation_steps --quick
	@$(BIN)/python -m bench.overhead --quick
	@$(BIN)/python -m bench.known --quick
	@$(BIN)/python -m bench.serving --quick
	@$(BIN)/python -m bench.health --quick
	@$(BIN)/python -m bench.recovery --quick

container: $(ENV)  ## build the image and prove it in a real engine (Docker, or root on Debian; minutes)
	@CONTAINER=1 $(BIN)/python -m pytest tests/cog_adapt/container

faults: $(ENV)  ## the fault tests in their long form: kills, full disks, long queues
	@FAULTS=full $(BIN)/python -m pytest tests/cog_adapt/faults

fuzz: $(ENV)  ## ask the server at random, at length (SCHEMATHESIS_EXAMPLES=500)
	@SCHEMATHESIS_EXAMPLES=$${SCHEMATHESIS_EXAMPLES:-500} $(BIN)/python -m pytest tests/cog_adapt/server/test_schemathesis.py

attack: $(ENV)  ## walk hostile values through a server of its own, and time another caller (minutes)
	@$(BIN)/python -m bench.attack --output docs/results/red-team.json

leaks: $(ENV)  ## look for what a server keeps of requests that are over; writes docs/results (minutes)
	@$(BIN)/python -m bench.leaks --output docs/results/leaks.json
