# Each target sets up what it needs, from nothing: a virtual environment in $(VENV), torch, and this package.
#
#   make demo                       profile a real training run and see what comes of it
#   make test                       the whole test suite; PYTEST_ARGS="-k schedule" for less
#   make lint types imports docs    what .ci/run checks besides
#   make bench                      Kinetoscope against torch.profiler on this machine
#   make TORCH=2.6.0 VENV=.venv-2.6 test
#   make PYTHON=/usr/bin/python3.12 VENV=.venv-3.12 test

VENV ?= .venv
TORCH ?= 2.13.0
PYTEST_ARGS ?= -n auto
BENCH_ARGS ?=
DEMO_ARGS ?=
DEMO_OUTPUT ?= demo-output

# The first Python that is new enough and can make virtual environments (Debian's needs python3-venv for that).
NEEDS := import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 10))
PYTHON ?= $(shell for python in python3.11 python3 python3.13 python3.12 python3.10; do \
	$$python -c '$(NEEDS)' 2>/dev/null && echo $$python && break; done)

BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check
RECORDS := $(VENV)/.has-torch-$(TORCH)
DEVELOPS := $(VENV)/.has-dev-$(TORCH)

.PHONY: help demo test lint format types imports docs bench clean
.DELETE_ON_ERROR:
.DEFAULT_GOAL := help

help:
	@sed -n '/^#$$/,/^$$/ s/^# *//p' $(firstword $(MAKEFILE_LIST))

demo: $(RECORDS)
	$(BIN)/kinetoscope demo --output-dir $(DEMO_OUTPUT) $(DEMO_ARGS)

test: $(DEVELOPS)
	$(BIN)/python -m pytest $(PYTEST_ARGS)

lint: $(DEVELOPS)
	$(BIN)/ruff check
	$(BIN)/ruff format --check

format: $(DEVELOPS)
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

types: $(DEVELOPS)
	$(BIN)/mypy

imports: $(DEVELOPS)
	$(BIN)/lint-imports

docs: $(DEVELOPS)
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

bench: $(RECORDS)
	$(BIN)/python bench/profiler.py $(BENCH_ARGS)

clean:
	rm -rf $(VENV) site build dist $(DEMO_OUTPUT)

# torch comes first and at one version: nothing that follows may pick another build of it.
$(RECORDS): pyproject.toml
	@$(if $(PYTHON),,echo "No Python 3.10 or newer with venv found; name one: make PYTHON=/path/to/python" >&2; exit 1)
	@$(PYTHON) -c '$(NEEDS)' || { echo "$(PYTHON) is no Python 3.10 or newer with venv" >&2; exit 1; }
	@echo "Setting up $(VENV) with $(PYTHON) and torch $(TORCH), once; this takes some minutes"
	$(PYTHON) -m venv $(VENV)
	$(PIP) install --quiet "torch==$(TORCH)"
	$(PIP) install --quiet --editable .
	@rm -f $(VENV)/.has-*
	@touch $@

$(DEVELOPS): $(RECORDS)
	$(PIP) install --quiet --editable ".[dev,docs]"
	@touch $@
