# `make demo` and `make test` are all a newcomer needs; each builds what it lacks. `make help` lists the rest.
PYTHON ?= python3
BIN := .venv/bin
INPUTS ?= 1000000
SEED ?= 1
SEQUENCES ?= 5000
SEEDS ?= 3
FAULTS ?= 10

.DEFAULT_GOAL := help
# Where the environment forbids it, each of the many processes that the tests start would compile all modules again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help setup release docs coverage demo demo-data demo-kafka broker test test-fast test-matrix test-cluster check format bench fuzz faults differential rules chart audit lock lock-jars clean

help: ## this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | sort | expand -t 14

setup: ## build .venv and fetch the JARs; does nothing when they are current
	@$(PYTHON) tools/setup.py

demo: ## play a day of forty groups, run every step on it, compare with the truth, write the report
	@$(PYTHON) tools/setup.py --for-demo
	@$(BIN)/groupledger demo

demo-data: setup ## make the tables of `serve --demo` anew, which lie in the package
	$(BIN)/python -m tools.demo_data

demo-kafka: setup ## the same steps on a real broker with real consumers
	@$(BIN)/python -m lab.kafka.demo

broker: setup ## a real broker with real consumers on this machine until Ctrl-C, to try the commands on
	@$(BIN)/python -m lab.kafka.broker_to_try

test: check ## everything that CI runs: lint, types, unit, property, Spark, broker and fault tests
	$(BIN)/python -m pytest -n 3 --durations=30 -m "not cluster"

# Without Java, tables and servers.
FAST_TESTS = tests/coordinator tests/schemas tests/transforms tests/conf tests/tools tests/test_*.py tests/jobs/cli tests/jobs/process

test-fast: setup ## rules, codec, coordinator and command line, without Java and tables: about a minute
	$(BIN)/python -m pytest -n 2 -q -m "not spark and not broker and not fault and not java and not browser and not slow and not cluster" $(FAST_TESTS)

test-matrix: ## the quick tests on every Python that can be had, and some of Spark's on each Spark (needs uv: pip install uv)
	@$(PYTHON) -m tools.matrix

test-cluster: setup ## a warehouse in an S3 bucket, and a cluster of Spark's with two workers (fetches both; ten minutes)
	@$(PYTHON) tools/setup.py --with-cluster
	$(BIN)/python -m pytest -m cluster tests/cluster

check: setup ## lint, format, types and import contracts
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: setup ## let ruff format, and fix what it can
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: setup ## measure us beside Kafka's own tools, in one run (twenty minutes)
	$(BIN)/python -m bench.coordinator
	$(BIN)/python -m bench.simulator
	$(BIN)/python -m bench.coordinator_socket
	$(BIN)/python -m bench.lag --table
	$(BIN)/python -m bench.lag_cost
	$(BIN)/python -m bench.history_matrix
	$(BIN)/python -m bench.incident_matrix
	$(BIN)/python -m bench.diagnosis
	$(BIN)/python -m bench.incident_accuracy --seeds 10
	$(BIN)/python -m bench.what_if_accuracy --seeds 1-5
	$(BIN)/python -m bench.history_cost
	$(BIN)/python -m bench.run

fuzz: setup ## hostile inputs through all that reads from outside, and their time per byte: make fuzz INPUTS=1000000 SEED=1
	$(BIN)/python -m bench.fuzz_codec --inputs $(INPUTS) --seed $(SEED)
	$(BIN)/python -m bench.fuzz_inputs --inputs $(INPUTS) --seed $(SEED)
	$(BIN)/python -m bench.fuzz_coordinator --inputs $(INPUTS) --seed $(SEED)
	$(BIN)/python -m bench.fuzz_http

faults: setup ## break something at random, repair, and compare with an undisturbed run: make faults SEEDS=3 FAULTS=10
	$(BIN)/python -m bench.faults --seeds $(SEEDS) --faults-per-seed $(FAULTS) $(if $(filter file,$(origin SEED)),,--first-seed $(SEED))

differential: setup ## random requests to a real broker, to the coordinator and to the history: make differential SEQUENCES=5000 [SEED=1]
	$(BIN)/python -m bench.differential --sequences $(SEQUENCES) $(if $(filter file,$(origin SEED)),,--seed $(SEED))
	$(BIN)/python -m bench.consumer_groups $(if $(filter file,$(origin SEED)),,--seed $(SEED))
	$(BIN)/python -m bench.consumer_coordinator $(if $(filter file,$(origin SEED)),,--seed $(SEED))
	$(BIN)/python -m bench.mixed_coordinator $(if $(filter file,$(origin SEED)),,--seed $(SEED))
	$(BIN)/python -m bench.share_coordinator $(if $(filter file,$(origin SEED)),,--seed $(SEED))
	$(BIN)/python -m bench.streams_coordinator $(if $(filter file,$(origin SEED)),,--seed $(SEED))
	$(BIN)/python -m bench.twins

PROMTOOL ?= promtool
rules: ## the alert rules on Prometheus's own engine: make rules PROMTOOL=promtool (CONTRIBUTING.md says where from)
	$(PROMTOOL) check rules conf/prometheus/groupledger.rules.yaml
	$(PROMTOOL) test rules tests/conf/prometheus/groupledger.test.yaml

HELM ?= helm
CHART := conf/deploy/chart
chart: ## the Helm chart, linted and rendered as a user may have it: make chart HELM=helm
	$(HELM) lint --strict $(CHART)
	$(HELM) template ledger $(CHART) > /dev/null
	$(HELM) template ledger $(CHART) --set warehouse.uri=s3a://bucket/ledger,secret=keys,serviceAccount=ledger \
		--set serviceMonitor=true,rules=true,serve.passwords=readers,serve.authHeader=X-User \
		--set 'serve.trustedProxies={10.0.0.1},serve.hosts={ledger.example.org}' > /dev/null

PIP_AUDIT ?= pip-audit
audit: ## known weaknesses of what is locked: make audit PIP_AUDIT=pip-audit AUDIT_OPTIONS="-s osv" (docs/security.md)
	for lock in requirements/*.lock; do \
		$(PIP_AUDIT) --strict --disable-pip --require-hashes $(AUDIT_OPTIONS) --requirement $$lock || exit 1; done

COMPILE := uv pip compile --universal --python-version 3.10 --generate-hashes --no-annotate --no-header --quiet
lock: lock-jars setup ## resolve the newest allowed versions into requirements/*.lock (needs uv: pip install uv), and list the JARs
	$(COMPILE) --all-extras pyproject.toml --output-file requirements/project.lock
	$(COMPILE) --constraint requirements/project.lock pyproject.toml --output-file requirements/ask.lock
	$(COMPILE) --constraint requirements/project.lock --extra spark pyproject.toml --output-file requirements/spark.lock
	$(COMPILE) --constraint requirements/project.lock --extra spark --extra quality pyproject.toml \
		--output-file requirements/writer.lock
	printf 'pyspark>=4.0.1,<4.1\n' | $(COMPILE) - --output-file requirements/spark-4.0.lock
	printf 'moto[s3]\nflask\nflask-cors\n' | $(COMPILE) - --output-file requirements/s3-server.lock
	printf 'setuptools\nwheel\n' | $(COMPILE) - --output-file requirements/build.lock
	printf 'sphinx\nmyst-parser\nfuro\n' | $(COMPILE) - --output-file requirements/docs.lock
	printf 'build\ntwine\ncyclonedx-bom\nsetuptools>=77\nwheel\n' | $(COMPILE) - --output-file requirements/release.lock

lock-jars: ## list the hashes of the JARs that conf/ivy names anew, in conf/ivy/*.sha256
	$(BIN)/python -m tools.lock_jars

release: setup ## build sdist and wheel twice, compare, check them, and write their parts list and hashes into dist/
	$(BIN)/python -m tools.release

# The folders themselves, since the package groupledger has only links to them, and coverage follows links.
MEASURED := coordinator jobs schemas transforms
coverage: setup ## how much of the code the fast tests run, with a page for each file in build/coverage
	$(BIN)/python -m pytest -n 2 -q -m "not spark and not broker and not fault and not java and not browser and not slow and not cluster" $(FAST_TESTS) \
		$(MEASURED:%=--cov=%) --cov-report=term:skip-covered --cov-report=html:build/coverage

docs: ## build the site of the documentation into build/site, strictly, with every link checked
	@$(PYTHON) -m tools.docs

clean: ## remove what set-up and runs leave behind, but not the caches of JARs
	rm -rf .venv .s3-server .release .matrix .docs build dist demo .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
