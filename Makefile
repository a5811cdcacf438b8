# Two commands do everything on a fresh machine: `make run` and `make test`.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# uv has settings of its own, and reads none of pip's.
UV := $(shell command -v uv 2>/dev/null)
INSTALL := $(if $(UV),$(UV) pip install --python $(BIN)/python,$(BIN)/python -m pip --disable-pip-version-check \
	install --no-compile) --quiet
# PyPI's build for Linux brings CUDA, 18 packages of 5 GB. The one without is sought where the installer's settings
# say, for machines without network, and then at torch's own index. For a GPU: make setup TORCH=torch==2.13.0
TORCH := torch==2.13.0$(if $(filter Linux,$(shell uname -s)),+cpu)
TORCH_INDEX := https://download.pytorch.org/whl/cpu
READY := $(VENV)/.ready
CONFIG ?= config.yaml
# Processes that run the tests: much of their time is waiting for servers and programs.
WORKERS ?= 4
PYTEST := $(BIN)/python -m pytest --numprocesses $(WORKERS) --dist worksteal

# Without this, pytest would compile every test file anew in every run and process.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: setup run test test-all lint bench dist shell clean

setup: $(READY)

# pip would compile 17,000 files one after another, which takes two minutes; here all processors share that, and
# what is hardly imported is left out: Python compiles it when it is. Some files are templates, and no Python.
SELDOM := /(kubernetes|transformers/models)/

# torch comes first and by itself: whatever else asks for it finds it there.
$(READY): requirements.lock requirements-torch.lock requirements-build.lock requirements-dev.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "ingestor needs Python 3.11 or newer")'
	@echo "Setting up $(VENV): some minutes and 2 GB, once."
	@$(PYTHON) -m venv $(VENV)
	@echo "1 of 3: torch"
	@$(INSTALL) $(TORCH) 2>/dev/null || $(INSTALL) --index-url $(TORCH_INDEX) $(TORCH)
	@echo "2 of 3: everything else, each file by its SHA-256 in the lock files"
	@$(INSTALL) --require-hashes --no-deps $(addprefix -r ,$(filter %.lock,$^))
	@$(BIN)/python -m compileall -qq -j 0 -x '$(SELDOM)' $(VENV)/lib || true
	@echo "3 of 3: ingestor"
	@$(INSTALL) --no-deps --no-build-isolation -e .
	@touch $(READY)

run: $(READY)
	$(BIN)/ingestor run --config $(CONFIG)

# The default tests keep their files in memory where there is room: they write thousands of small databases, and each
# commit would wait for the disk. `make test-all` runs them on the disk, with the slow ones.
MEMORY = $(shell test "$$(df --output=avail -k /dev/shm 2>/dev/null | tail -1)" -gt 4000000 2>/dev/null && echo /dev/shm)

test: $(READY)
	$(if $(MEMORY),PYTEST_DEBUG_TEMPROOT=$(MEMORY)) $(PYTEST) -m "not slow"

test-all: $(READY)
	$(PYTEST) -m "slow or not slow" --hypothesis-profile=thorough

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: $(READY)
	$(BIN)/python -m benchmarks

# The source distribution, and the wheel that is built from it; docs/releasing.md says how to publish them.
dist: $(READY)
	rm -rf build dist
	$(BIN)/python -m build --no-isolation

# A shell in which `ingestor`, `pytest`, `ruff` and the others are those of .venv.
shell: $(READY)
	VIRTUAL_ENV="$(CURDIR)/$(VENV)" PATH="$(CURDIR)/$(BIN):$$PATH" $${SHELL:-/bin/sh} -i

clean:
	rm -rf $(VENV) .ingestor chroma build dist
