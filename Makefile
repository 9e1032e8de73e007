# The whole project in two commands: `make demo` and `make test`. Each target makes what it needs; `make help` lists them.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
MAKEFLAGS += --no-builtin-rules

VENV := .venv
NEWEST := .venv-newest
PAIMON := .venv-paimon
PY := $(VENV)/bin/python
KERNELS := $(shell find puffin_fast/_kernels -name '*.pyx' -o -name '*.pxd' -o -name '*.h')
STUBS := $(shell find puffin_fast/_kernels -name '*.pyi')
PYTEST := $(PY) -m pytest
KERNEL_TESTS := tests/kernels tests/bitmap tests/arrow tests/dv tests/theta tests/key_index
args ?=
workers ?= 2
# Files stay whole, because what a module prepares is made once, and in the order of tests/conftest.py.
PARALLEL = -n $(workers) --dist loadfile --no-loadscope-reorder

# Python compiles the modules that it imports; pip would compile all.
export PIP_NO_COMPILE := 1
# Each process would compile the package, and what it imports, anew.
unexport PYTHONDONTWRITEBYTECODE
# An editable install is meant here, so that pip need not warn of it.
EDITABLE = PYTHONWARNINGS="ignore:Editable installation"

# uv installs 160 packages in seconds, pip in a minute. It knows nothing of pip's settings, so pip installs from another
# index than the usual one, and wherever uv cannot.
install = ! { $(PY) -m pip config list; env; } | grep -qiE '^(global\.|install\.|PIP_)[a-z_-]*index' \
	&& $(PY) -m pip install -q uv && $(PY) -m uv pip install -q --python $(PY)

# The interpreter of .venv: the first on the PATH that is new enough and can make an environment and extensions, or one that
# is faster by a sixth: those that were built without profile-guided optimisation take a third longer.
# `make PYTHON=/path/to/python3 …` chooses another.
PYTHON ?= $(eval PYTHON := $(shell best=; \
	for p in $$(type -ap python3 python3.13 python3.12 python3.11 | xargs -r -n 1 readlink -f | awk '!seen[$$0]++'); do \
		time=$$("$$p" tests/interpreter.py 2> /dev/null) || continue; \
		if test -z "$$best" || test $$((time * 6)) -lt $$((best * 5)); then best=$$time; found=$$p; fi; \
	done; echo "$${found:-}"))$(PYTHON)

define need_python
	@test -n "$(PYTHON)" || { echo "Python 3.11, 3.12 or 3.13 is missing: install one, or name it with make PYTHON=…" >&2; exit 1; }
endef
define need_compiler
	@echo '#include <Python.h>' | $${CC:-cc} -fsyntax-only -x c -I"$$($(PYTHON) -c 'import sysconfig; print(sysconfig.get_path("include"))')" - \
		|| { echo "a C compiler with Python's headers is missing: apt-get install gcc python3-dev, or set CC" >&2; exit 1; }
endef
define need_java
	@java=$${JAVA_HOME:+$$JAVA_HOME/bin/}java; \
	major=$$("$$java" -version 2>&1 | sed -nE 's/.*version "([0-9]+).*/\1/p' | head -1 || true); \
	test "$${major:-0}" -ge 17 || { echo "Java 17 or later is missing (found $${major:-none}), Spark needs it: apt-get install openjdk-17-jre-headless, or set JAVA_HOME" >&2; exit 1; }
endef

.PHONY: help demo docs screenshots check test test-deep test-newest test-paimon bench fuzz mutate sanitize aarch64 deep lint format types jars pyiceberg-suite wheel ship build java clean distclean

help:  ## this list
	@grep -hE '^[a-z0-9-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

demo: build java  ## delete rows of real Iceberg v3 tables through Spark and prove it (DEMO_SCALE=1 adds 6M rows)
	$(PY) -m examples.demo $(args)

# tests/lanes.py says which tests `check`, `test` and `test-deep` run.
test: build java jars  ## the tests of every part, with Spark and the foreign engines, in 12 minutes (args="-k name" narrows, workers=0 is one process)
	$(PYTEST) $(PARALLEL) --lane test $(args)

check: lint build  ## lint, types and the quick part of the tests, in about two minutes
	$(PY) -m mypy & types=$$!; failed=0; \
	$(PYTEST) -q -n $(workers) --lane check $(args) || failed=1; \
	wait $$types || failed=1; exit $$failed

# What `make test-deep` makes after the tests; none hides that another failed. (A line with MAKE would run with `make -n` too.)
REST := deep sanitize test-newest test-paimon pyiceberg-suite mutate fuzz ship

test-deep: build java jars  ## what `make test` leaves: kills, races, all engines, clusters, and the targets of REST (with args, only tests)
	failed=; $(PYTEST) $(PARALLEL) --lane deep $(args) || failed=tests; \
	for target in $(if $(args),,$(REST)); do make $$target || failed="$$failed $$target"; done; \
	test -z "$$failed" || { echo "failed: $$failed" >&2; exit 1; }

test-newest: $(NEWEST)/.installed java  ## the Spark tests that need no jar, on the newest PySpark
	@$(NEWEST)/bin/python -c 'import pyspark; print("PySpark", pyspark.__version__)'
	$(NEWEST)/bin/python -m pytest $(PARALLEL) -m "spark and not jar" $(args)

test-paimon: $(PAIMON)/.installed jars  ## the tests of Paimon tables through pypaimon, which needs an older PyArrow
	@$(PAIMON)/bin/python -c 'from importlib.metadata import version; print("pypaimon", version("pypaimon"))'
	$(PAIMON)/bin/python -m pytest -m pypaimon tests/paimon tests/architecture/test_docs.py $(args)

docs: build java  ## build the documentation site into build/site
	$(PY) -m docs.generated
	NO_MKDOCS_2_WARNING=1 $(PY) -m mkdocs build --strict --quiet

screenshots: docs  ## pictures of the site's pages and of a report in build/screenshots (needs Chromium)
	$(PY) -m tests.screenshots

bench: build  ## pytest-benchmark's tables, then each case paired with its peers, with targets and plots (args="-k union" narrows)
	@mkdir -p build/bench
	$(PYTEST) benchmarks --benchmark-only --benchmark-disable-gc --benchmark-group-by=group --benchmark-columns=min,median,ops \
		--benchmark-max-time=0.2 --benchmark-json=build/bench/pytest-benchmark.json $(args)
	$(PY) -m benchmarks.run $(args)

fuzz: build  ## fuzz each decoder and identity, coverage-guided (seconds=60 each; args="--target bitmap" narrows)
	$(PY) -m tests.fuzz.run --seconds $(or $(seconds),60) $(args)

mutate: build  ## mutate the files of a table and read them (seconds=60; args="--target manifest" narrows)
	$(PY) -m tests.fuzz.mutate --seconds $(or $(seconds),60) $(args)

sanitize: build  ## the kernels' tests on kernels built with ASan and UBSan, on every SIMD level
	$(PY) -m tests.instrumented sanitize $(args)

aarch64: build  ## the kernels for aarch64, cross-compiled, and their tests in an emulator (needs Debian's packages)
	$(PY) -m tests.aarch64 $(args)

deep: build  ## the kernels' properties with hypothesis' deep profile (5,000 examples each, 500 of the costly)
	HYPOTHESIS_PROFILE=deep $(PYTEST) $(KERNEL_TESTS) -m "not jar and not spark" -n auto $(args)

lint: $(VENV)/.installed  ## ruff: rules and formatting
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .

format: $(VENV)/.installed  ## apply ruff's formatting and safe fixes
	$(PY) -m ruff check --fix .
	$(PY) -m ruff format .

types: build  ## mypy on the package, stubtest on the kernels
	$(PY) -m mypy
	$(if $(STUBS),$(PY) -m mypy.stubtest --mypy-config-file tests/stubtest.ini --allowlist tests/stubtest.txt --ignore-unused-allowlist $(subst /,.,$(STUBS:.pyi=)))

jars: $(VENV)/.installed  ## fetch the Java jars of the foreign engines into the user's cache
	@$(PY) tests/jars.py || { [ "$${CI:-}" != true ] && echo "going on without: tests that need jars say so" >&2; }

pyiceberg-suite: build  ## PyIceberg's own unit tests with and without accelerate()
	$(PY) tests/pyiceberg_suite.py

wheel: build  ## build the sdist, from it the manylinux wheel, test it in fresh environments outside the checkout
	rm -rf dist build/lib* build/bdist* build/wheel
	installer=$$($(PY) -c 'import uv' 2> /dev/null && echo uv || echo pip); \
	$(PY) -m build --installer $$installer --outdir dist . > /dev/null  # both in environments that have only what pyproject.toml requires
	$(PY) -m tests.wheel dist build/wheel

ship: wheel java  ## pack an environment with the wheel, run jobs on a local-cluster whose executors have nothing else
	$(PY) -m tests.ship dist build/ship

build: $(VENV)/.built  ## .venv with everything and the kernels compiled in place

java:
	$(need_java)

$(VENV)/.installed: pyproject.toml setup.py
	$(need_python)
	$(need_compiler)
	test -x $(PY) || $(PYTHON) -m venv $(VENV)
	$(PY) -m pip install -q --upgrade pip "setuptools>=77" "cython>=3.1"
	$(install) --no-build-isolation -e ".[dev]" || $(EDITABLE) $(PY) -m pip install -q --no-build-isolation -e ".[dev]"
	touch $@ $(VENV)/.built

$(VENV)/.built: $(VENV)/.installed $(KERNELS)
	$(PY) setup.py -q build_ext --inplace
	touch $@

# Environments with other versions of some packages; all else they find in .venv.
define on_top_of_venv
	test -d $(@D) || $(PYTHON) -m venv --without-pip $(@D)
	site() { "$$1" -c 'import sysconfig; print(sysconfig.get_path("purelib"))'; }; \
	echo "import site; site.addsitedir('$$(site $(PY))')" > "$$(site $(@D)/bin/python)/base.pth"
endef

$(NEWEST)/.installed: pyproject.toml $(VENV)/.built
	$(on_top_of_venv)
	$(@D)/bin/python -m pip install -q --upgrade "pyspark[sql,connect]"
	touch $@

# What .venv's packages require of others, which pypaimon takes in older versions, does not matter there.
$(PAIMON)/.installed: pyproject.toml $(VENV)/.built
	$(on_top_of_venv)
	$(@D)/bin/python -m pip install -q --no-warn-conflicts "$$($(PY) -c 'import tomllib; \
		print(tomllib.load(open("pyproject.toml", "rb"))["project"]["optional-dependencies"]["pypaimon"][0])')"
	touch $@

clean:  ## remove what was built (environments and the jar cache stay)
	rm -rf build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .benchmarks spark-warehouse metastore_db derby.log
	find puffin_fast/_kernels '(' -name '*.so' -o -name '*.c' ')' -delete
	rm -f $(VENV)/.built

distclean: clean  ## remove the environments too
	rm -rf $(VENV) $(NEWEST) $(PAIMON) .hypothesis
