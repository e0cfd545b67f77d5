# Two commands set everything up: `make run` (the main job) and `make test`.
SHELL := /bin/sh
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
EXTRAS ?= dev,deep,boost,service

.PHONY: help run test lint unit browser spark soak venv java format docs-config lock bench reproduce bench-spark bench-flink clean

help: ## Show what can be made
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-12s %s\n", $$1, $$2}'

run: venv java ## Run the main job: an application on Spark, steered ahead of its load; two minutes, with a report
	@$(BIN)/foretide run twitter-classification --html out/report.html

test: venv java lint unit spark ## Run every check: format, lint, types, layers, tests

venv: $(STAMP) ## Make .venv and install the package with all it needs

$(STAMP): pyproject.toml constraints.txt scripts/make_venv.sh
	@PYTHON="$(PYTHON)" sh scripts/make_venv.sh $(VENV) "$(EXTRAS)"
	@touch $(STAMP)

java: ## See to Java 17 or newer, which Spark needs
	@sh scripts/ensure_java.sh

lint: venv ## Check format, lint, types and the direction of imports
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo

unit: venv ## Run all tests that need no Spark
	$(BIN)/pytest -q -m "not spark and not browser" -n 2

browser: venv ## Run the dashboard's tests, which need Chromium and its driver
	$(BIN)/pytest -q -m browser tests/browser

spark: venv java ## Run the tests on Spark
	$(BIN)/pytest -q -m spark tests/spark

format: venv ## Format the code
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

docs-config: venv ## Write docs/configuration.md anew from the settings
	$(BIN)/foretide docs configuration --out docs/configuration.md

lock: venv ## Write constraints.txt anew from what is installed
	$(BIN)/pip list --format=freeze --exclude foretide --exclude pip --exclude setuptools --exclude wheel > constraints.txt

soak: venv java ## Run the long reliability tests: ten kills of the driver, one hour of trace at speed-up 10
	FORETIDE_SOAK=1 $(BIN)/pytest -q tests/spark/test_kill.py
	$(BIN)/python benchmarks/soak.py --minutes 6

bench: venv ## Run the benchmarks that need no Spark and write their tables
	$(BIN)/python benchmarks/planning.py --markdown docs/benchmarks.md --json benchmarks/results/planning.json
	$(BIN)/python benchmarks/grouping.py --json benchmarks/results/grouping.json
	$(BIN)/python benchmarks/forecasting.py --markdown docs/benchmarks.md --json benchmarks/results/forecasting.json
	$(BIN)/python benchmarks/simulator.py --markdown docs/benchmarks.md --json benchmarks/results/simulator.json

reproduce: venv ## Make the papers' tables and figures anew, in docs/reproduction (about seven minutes on two cores)
	$(BIN)/foretide reproduce all --out docs/reproduction

bench-spark: venv java ## Run the benchmarks of the data plane and write their table
	$(BIN)/python benchmarks/data_plane.py

bench-flink: venv java ## Run the comparison with PyFlink, which gets an environment of its own
	$(BIN)/python benchmarks/flink.py

clean: ## Remove the virtual environment and caches
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache build dist
