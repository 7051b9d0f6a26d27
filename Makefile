# Two commands for a fresh machine with Python 3.11 or later: `make demo` and `make test`.

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
COUNT ?= 300
SEED ?= 1
INSTALLED := $(VENV)/.installed
TESTABLE := $(VENV)/.testable

# Container images set it; hundreds of commands that the tests run would each compile EdgeKit's sources again.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help install demo test pytest quick lint types docs wheel lowest tools qemu swift fuzz kills clean

help: ## List the commands.
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z]+):[^#]*## /\1\t/' | expand -t 10

install: $(INSTALLED) ## Install EdgeKit into .venv.

$(INSTALLED): pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "EdgeKit needs Python 3.11 or later")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[coreai]'
	touch $@

$(TESTABLE): $(INSTALLED)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[dev]'
	touch $@

demo: $(INSTALLED) ## Package the sample model for iOS, Intel and ONNX Runtime, and show what came of it.
	PATH="$(CURDIR)/$(BIN):$$PATH" sh sample_apps/digits/demo.sh

test: $(TESTABLE) ## All tests, lint, types, documentation and wheel.
	$(MAKE) --jobs=2 tools qemu lint docs wheel
	$(MAKE) --jobs=2 types pytest

pytest: $(TESTABLE) ## All tests.
	MAKEFLAGS= $(BIN)/python -m pytest --numprocesses 2 --dist loadgroup -q

quick: $(TESTABLE) ## The fast tests.
	$(BIN)/python -m pytest --numprocesses 2 --dist loadgroup -q -m 'not slow and not browser and not cxx'

lint: $(TESTABLE) ## Ruff: rules and format; import-linter: which package may import which.
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	PYTHONPATH=.:quantize:targets $(BIN)/lint-imports --no-cache

types: $(TESTABLE) ## mypy --strict.
	nice $(BIN)/mypy

docs: $(TESTABLE) ## The documentation site, in build/site; a broken link is an error.
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --quiet

wheel: $(TESTABLE) ## The source distribution and the wheel, in dist, checked.
	rm -rf dist
	$(BIN)/python -m build --no-isolation --outdir dist . > /dev/null
	$(BIN)/python -m twine check --strict dist/*

lowest: ## The sample app's bundles, built with the lowest versions that pyproject.toml allows; in build/lowest.
	rm -rf build/lowest
	$(PYTHON) -m venv build/lowest/venv
	build/lowest/venv/bin/python -m pip install --quiet --constraint constraints-lowest.txt .
	build/lowest/venv/bin/edgekit build --config sample_apps/digits/edgekit.toml --output-dir build/lowest/bundles

tools: ## What the tests of the sample apps run with: Chromium, CMake, a C++ compiler. Tests without them are skipped.
	sh tests/install_tools.sh

qemu: $(INSTALLED) ## QEMU and the arm64 runtimes, in ~/.cache/edgekit. Tests without them are skipped.
	-$(BIN)/python tests/install_qemu.py

swift: $(TESTABLE) ## Swift 6 (0.5 GB), and the tests of the Swift sources: compiled and run with stubs of Core ML.
	sh tests/install_swift.sh
	$(BIN)/python -m pytest -q tests/targets/edgekit_coreml/swift

fuzz: $(TESTABLE) ## Broken and malicious inputs: COUNT cases drawn from SEED; failures are kept in fuzz/.
	$(BIN)/python tests/hostile/fuzz.py --count $(COUNT) --seed $(SEED) --out fuzz

kills: $(TESTABLE) ## Commands that are ended at random moments: COUNT of them drawn from SEED.
	$(BIN)/python tests/hostile/kills.py --count $(COUNT) --seed $(SEED)

clean: ## Remove the virtual environment and the caches.
	rm -rf $(VENV) sample_apps/*/bundles sample_apps/*/fetched .mypy_cache .pytest_cache .ruff_cache
