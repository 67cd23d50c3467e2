# `make serve` starts the server, `make test` runs the tests.  Both first install what they need.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin

.PHONY: help serve test test-all test-browser test-clients lint install clean
.DEFAULT_GOAL := help

help:
	@echo "make serve         install, and start the server on http://127.0.0.1:8000 with the embedded voice"
	@echo "make test          install, and run the fast tests"
	@echo "make test-all      install, and run all tests but those in a browser or of clients"
	@echo "make test-browser  install, and test the demo page in Chromium (skipped without Chromium)"
	@echo "make test-clients  install, and run the clients of other projects against the server, each in its own environment"
	@echo "make lint          install, and check style and types"
	@echo "make clean         remove the virtual environment, builds and caches"
	@echo 'ARGS="..." is passed to the server or to pytest.'

serve: $(VENV)/.installed
	$(BIN)/realtime-tts serve $(ARGS)

test: $(VENV)/.installed-dev
	$(BIN)/pytest -n auto --dist loadgroup -m "not slow and not browser and not clients" $(ARGS)

test-all: $(VENV)/.installed-dev
	$(BIN)/pytest -n auto --dist loadgroup -m "not browser and not clients" $(ARGS)

test-browser: $(VENV)/.installed-dev
	$(BIN)/python -m pip install --quiet --editable '.[browser]'
	$(BIN)/pytest -m browser $(ARGS)

test-clients: $(VENV)/.installed-dev
	$(BIN)/python -m pip install --quiet --editable '.[browser,aac]'
	$(BIN)/pytest tests/clients -m clients $(ARGS)

lint: $(VENV)/.installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

install: $(VENV)/.installed

$(VENV)/.installed: pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit("Python 3.11 or newer is needed, this is " + sys.version.split()[0] if sys.version_info < (3, 11) else 0)'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --editable .
	touch $@

$(VENV)/.installed-dev: $(VENV)/.installed
	$(BIN)/python -m pip install --quiet --editable '.[dev]'
	touch $@

clean:
	rm -rf $(VENV) build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis
