# Every target is a few plain pip, mt, ruff, mypy or pytest commands; README.md shows them for a machine without make.
#
#   make demo                                            environment, then the quick start
#   make demo TORCH_INDEX=https://download.pytorch.org/whl/cpu   the same with a small CPU-only build of PyTorch
#   make test                                            environment with the developers' tools, lint, types, fast tests
#   make test-slow                                       the end-to-end tests
#   make lock                                            renew the pins

PYTHON ?= python3
VENV ?= .venv
TORCH_INDEX ?=

BIN := $(VENV)/bin
PARALLEL := -n auto --maxprocesses 8 --dist worksteal
PIP := $(BIN)/python -m pip --disable-pip-version-check
TORCH_PIN := torch==2.13.0
COMPILE := $(BIN)/uv pip compile pyproject.toml - --universal --python-version 3.10 --no-annotate --no-header --upgrade --quiet

.PHONY: demo test test-slow lint lock clean

demo: $(VENV)/demo.installed
	$(BIN)/mt run quickstart

test: lint
	$(BIN)/python -m pytest $(PARALLEL)

test-slow: $(VENV)/dev.installed
	$(BIN)/python -m pytest $(PARALLEL) -m slow

lint: $(VENV)/dev.installed
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy

$(VENV)/demo.installed: requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.version_info >= (3, 10) or sys.exit("mt needs Python 3.10 or newer, but $(PYTHON) is " + sys.version.split()[0] + "; name another: make PYTHON=python3.12 demo")'
	$(PYTHON) -m venv $(VENV)
ifneq ($(TORCH_INDEX),)
	$(PIP) install --quiet --no-deps --index-url $(TORCH_INDEX) $(TORCH_PIN)
endif
	$(PIP) install --quiet --requirement requirements.lock
	$(PIP) install --quiet --no-deps --no-build-isolation --editable .
	@touch $@

$(VENV)/dev.installed: $(VENV)/demo.installed requirements-dev.lock
	$(PIP) install --quiet --requirement requirements-dev.lock
	@touch $@

# CUDA packages are left out: torch's own build names the ones it needs, exactly, and a CPU build needs none.
lock: $(VENV)/dev.installed
	$(PIP) install --quiet uv
	echo '# Pins of what `make demo` installs, for Python 3.10 to 3.14; written by `make lock`, not by hand.' > lock.new
	printf '%s\n' '$(TORCH_PIN)' setuptools | $(COMPILE) --extra demo | grep -vE '^(nvidia|cuda|triton)' >> lock.new
	mv lock.new requirements.lock
	echo '# Pins of what `make test` installs, for Python 3.10 to 3.14; written by `make lock`, not by hand.' > lock.new
	printf '%s\n' setuptools | $(COMPILE) --extra dev --constraint requirements.lock | grep -vE '^(nvidia|cuda|triton)' >> lock.new
	mv lock.new requirements-dev.lock

clean:
	rm -rf $(VENV) build dist *.egg-info
