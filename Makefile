# Two commands do everything: `make serve` speaks, `make test` proves it.  Both install what they need first.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin

.PHONY: help serve test test-all lint install clean
.DEFAULT_GOAL := help

help:
	@echo "make serve   install, and start the server on http://127.0.0.1:8000 with the embedded voice"
	@echo "make test    install, and run the fast tests"
	@echo "make test-all  install, and run all tests, the slow ones too"
	@echo "make lint    install, and check style and types"
	@echo "make clean   remove the virtual environment and caches"

serve: $(VENV)/.installed
	$(BIN)/realtime-tts serve $(ARGS)

test: $(VENV)/.installed-dev
	$(BIN)/pytest -n auto --dist loadgroup -m "not slow and not browser" $(ARGS)

test-all: $(VENV)/.installed-dev
	$(BIN)/pytest -n auto --dist loadgroup -m "not browser" $(ARGS)

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
