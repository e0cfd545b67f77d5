# Two commands set everything up: `make run` (the main job) and `make test`.
SHELL := /bin/sh
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
EXTRAS ?= all,dev,docs
# What one process compiles, others read: Python's bytecode too, whatever the surroundings say.
export PYTHONDONTWRITEBYTECODE =

.PHONY: help run test check lint unit slow explore browser spark soak chaos venv warm-up java postgres maven chromium format docs docs-config lock bench-all bench-long flink reproduce train-zero dist check-dist clean

help: ## Show what can be made
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-12s %s\n", $$1, $$2}'

run: venv java ## Run the main job: an application on Spark, steered ahead of its load; two minutes, with a report
	@$(BIN)/foretide run twitter-classification --html out/report.html

test: venv java postgres maven chromium ## Run every check: format, lint, types, layers, tests, documentation
	@$(MAKE) --no-print-directory -j 2 --output-sync=target lint docs warm-up
	@$(MAKE) --no-print-directory unit
	@$(MAKE) --no-print-directory -j 2 --output-sync=target slow browser
	@$(MAKE) --no-print-directory spark

check: lint unit ## Run what a change needs at once: format, lint, types, layers, quick tests

venv: $(STAMP) ## Make .venv and install the package with all it needs

$(STAMP): pyproject.toml constraints.txt scripts/make_venv.sh
	@PYTHON="$(PYTHON)" sh scripts/make_venv.sh $(VENV) "$(EXTRAS)"
	@touch $(STAMP)

warm-up: venv ## Compile the numerical code ahead of tests and runs, where that is not done
	$(BIN)/foretide warm-up

java: ## See to Java 17 or newer, which Spark needs
	@sh scripts/ensure_java.sh

postgres: ## See to PostgreSQL's server, which the tests start for themselves
	@sh scripts/ensure_postgres.sh

maven: ## See to Maven, which fetches the Kafka broker
	@sh scripts/ensure_maven.sh

chromium: ## See to Chromium and its driver, in which the dashboard is tested
	@sh scripts/ensure_chromium.sh

lint: venv ## Check format, lint, types and the direction of imports
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo

unit: venv ## Run the quick tests, which need no Spark
	$(BIN)/pytest -q -m "not spark and not browser and not kafka and not slow" -n 2 --dist worksteal

slow: venv ## Run the tests without Spark that train networks, start other programs, or take long otherwise
	$(BIN)/pytest -q -m "slow and not spark and not browser and not kafka" -n 2 --dist worksteal

explore: venv ## Try the properties with many more examples, drawn anew (about a quarter of an hour)
	$(BIN)/pytest -q -m hypothesis --hypothesis-profile=explore -n 2

browser: venv chromium ## Run the dashboard's tests in headless Chromium
	$(BIN)/pytest -q -m browser tests/browser

spark: venv java maven ## Run the tests on Spark and on Kafka
	$(BIN)/pytest -q --durations=12 -m "spark or kafka" -n 3 --dist loadscope --no-loadscope-reorder \
		tests/spark tests/contracts/test_transport.py tests/unit/kafka tests/unit/commands/test_kafka_commands.py

format: venv ## Format the code
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

docs: venv ## Build the documentation's site in site/
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

docs-config: venv ## Write docs/configuration.md anew from the settings
	$(BIN)/foretide docs configuration --out docs/configuration.md

lock: venv ## Write constraints.txt anew from what is installed
	$(BIN)/pip list --format=freeze --exclude foretide --exclude pip --exclude setuptools --exclude wheel > constraints.txt

soak: venv java maven ## Run the long reliability tests: YARN, ten kills of the driver, an hour of trace at speed-up 10, 200 scale-downs
	FORETIDE_SOAK=1 $(BIN)/pytest -q tests/spark/test_yarn.py tests/spark/test_kill.py
	$(BIN)/python benchmarks/soak.py --minutes 6
	$(BIN)/python benchmarks/scale_downs.py

chaos: venv java postgres maven ## Let a thousand things go wrong, and compare what comes out with what went in (about two hours on two cores)
	$(BIN)/python tests/chaos/chaos_runs.py --runs 20 --faults 50

bench-all: venv java maven flink ## Run all benchmarks but the longest, within two hours, and write their page; goes on where it was stopped
	$(BIN)/python benchmarks/bench_all.py

bench-long: venv java maven flink ## Also run the benchmarks that take hours (some need root, for a cluster in namespaces); goes on where it was stopped
	$(BIN)/python benchmarks/bench_all.py --long

flink: .venv-flink/installed ## Install PyFlink, which the comparisons need, into an environment of its own
.venv-flink/installed:
	python3 -m venv .venv-flink
	.venv-flink/bin/pip install -q 'apache-flink==2.3.*' pydantic
	touch $@

reproduce: venv ## Make the papers' tables and figures anew, in docs/reproduction (TRACES=DIR: the series of BGElasor)
	$(BIN)/foretide reproduce all --out docs/reproduction $(if $(TRACES),--traces $(TRACES))

train-zero: venv ## Train the network that `zero` ships with: minutes on a GPU, a day without; goes on where it was stopped
	$(BIN)/python -m foretide.forecast.zero.learning.fit --out out/zero

dist: venv ## Build the wheel and the source distribution, in dist
	rm -rf dist build
	$(BIN)/python -m build --outdir dist

check-dist: dist ## Check both in a clean virtual environment
	sh scripts/check_wheel.sh dist

clean: ## Remove the virtual environment and caches
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache build dist
