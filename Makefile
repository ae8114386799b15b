# The two commands, `make demo` and `make test`, and what keeps the house in order.
#
# Every target sets up what it needs first: `.venv` and `build/`, tools and libraries from PyPI. Nothing is installed
# outside this folder. Variables: PYTHON, BUILD (build folder), JOBS, ARGS (for the demo and pytest), OUT (gpu-bench),
# STRICT (1: a compiler's warning is an error, as in .ci/run), CUDA (1: build it, with nvcc from PyPI if there is none;
# 0: host only; empty: if nvcc or a GPU is here), ONSTREAM_OFFLINE=1 (download nothing; use the packages of PYTHON).
PYTHON ?= python3
BUILD ?= build
JOBS ?= $(shell nproc)
CUDA ?=
STRICT ?=
ARGS ?=
OUT ?= out/bench
VENV := .venv
BIN := $(VENV)/bin
COMPILER := $(shell for one in $${CXX%% *} c++ g++ clang++; do command -v $$one && break; done)
# As tools/build.py compiles, so that ccache knows the library again when `pip install .` compiles it.
CCACHE := $(filter-out $(CURDIR)/$(BIN)/%,$(shell command -v ccache))
LAUNCHER = $(or $(CCACHE),$(if $(wildcard $(BIN)/ccache),$(CURDIR)/$(BIN)/ccache))
AS_BUILT = $(if $(LAUNCHER),CMAKE_CXX_COMPILER_LAUNCHER="$(LAUNCHER)" CMAKE_CUDA_COMPILER_LAUNCHER="$(LAUNCHER)") \
	$(if $(CCACHE),,CCACHE_DIR="$${CCACHE_DIR:-$(CURDIR)/$(VENV)/ccache}") CXX="$${CXX:-$(COMPILER)}" CUDAHOSTCXX=$(COMPILER) \
	SKBUILD_CMAKE_DEFINE="ONSTREAM_STRICT=$(if $(filter 1,$(STRICT)),ON,OFF);ONSTREAM_ONCE=$(if $(CCACHE),OFF,ON)"
CPP_FILES = git ls-files -z '*.cpp' '*.hpp' '*.cu' '*.cuh' '*.c' '*.h'

.PHONY: help demo test check format lint rules install-check sanitize docs site gpu-check gpu-bench build package libmp setup setup-check python clean

help:
	@echo "make demo       the tsunami over real sea floor (ARGS: options of 'onstream demo')"
	@echo "make build      all of it in build/ (CUDA=0: host only; BUILD=dir)"
	@echo "make test       every test, no GPU needed (ARGS: options of pytest)"
	@echo "make check      format, lint, types, rules, pages, installation, sanitizers"
	@echo "make format     formats C++ and Python in place"
	@echo "make docs       the documentation as a site, in build-docs/"
	@echo "make gpu-check  the same tests on a machine with GPUs"
	@echo "make gpu-bench  measures on a machine with GPUs, JSON to OUT=dir"
	@echo "make clean      removes .venv and the build folders"

demo: package
	$(BIN)/onstream demo $(ARGS)

# Some files at once (tests/python/conftest.py), if pytest-xdist is here (packages of PYTHON may lack it).
test: build libmp
	$(BIN)/python -m pytest tests/python -m "not install" $$($(BIN)/python -c "import xdist" 2>/dev/null && echo --numprocesses auto --dist loadfile) $(ARGS)

check: lint rules site install-check sanitize

python:
	@command -v $(PYTHON) >/dev/null || { echo "onstream: there is no '$(PYTHON)' here. Install Python 3.10 or newer, or name one: make PYTHON=/path/to/python3" >&2; exit 1; }

setup: python
	@$(PYTHON) tools/setup.py --venv $(VENV) --cuda "$(CUDA)"

setup-check: python
	@$(PYTHON) tools/setup.py --venv $(VENV) --cuda "$(CUDA)" --check

build: setup
	@$(BIN)/python tools/build.py --build $(BUILD) --jobs $(JOBS) --cuda "$(CUDA)" --strict "$(STRICT)"

# The library and its Python module, without tests and benchmarks.
package: setup
	@$(BIN)/python tools/build.py --build $(BUILD) --jobs $(JOBS) --cuda "$(CUDA)" --strict "$(STRICT)" --package

# What libmp's tests run over where there is nvcc and no GPU: its interface again, without CUDA, in $(BUILD)-libmp.
libmp: build
	@$(BIN)/python tools/build.py --build $(BUILD) --jobs $(JOBS) --cuda "$(CUDA)" --strict "$(STRICT)" --libmp

lint: setup-check build
	$(CPP_FILES) | xargs -0 $(BIN)/clang-format --dry-run -Werror
	$(BIN)/ruff format --check python tests tools examples bench docs/conf.py
	$(BIN)/ruff check python tests tools examples bench docs/conf.py
	$(BIN)/mypy

format: setup-check
	$(CPP_FILES) | xargs -0 $(BIN)/clang-format -i
	$(BIN)/ruff format python tests tools examples bench docs/conf.py
	$(BIN)/ruff check --fix python tests tools examples bench docs/conf.py

rules: build
	$(BIN)/python -m pytest -q tests/python/test_layers.py tests/python/test_docs.py tests/python/test_parameters.py tests/python/test_prose.py

# `pip install .` into a venv of its own, as a user would: with this machine's cmake if it is new enough, else with one
# that pip fetches, and with CUDA if there is an nvcc. Then a job, with the `python` that the launcher finds. At last the
# library as a folder of another project.
install-check: build
	rm -rf $(BUILD)-install
	$(PYTHON) -m venv $(BUILD)-install
	$(AS_BUILT) $(BUILD)-install/bin/python -m pip install --quiet --disable-pip-version-check ".[cli]"
	cd $(BUILD)-install && bin/python -c "import onstream" && bin/onstream info
	cd $(BUILD)-install && test -z "$$(find lib -path '*site-packages/*' -name 'libonstream*')"
	cd $(BUILD)-install && bin/onstream run -n 3 python $(CURDIR)/examples/ring.py
	ONSTREAM_BUILD=$(BUILD) $(BIN)/python -m pytest -q tests/python/test_examples.py -m install

# The native tests of the host device under the address and undefined behaviour sanitizers, then under the thread one.
sanitize: setup
	@$(BIN)/python tools/build.py --build $(BUILD)-address --jobs $(JOBS) --cuda 0 --sanitize address,undefined
	@$(BIN)/python tools/build.py --build $(BUILD)-thread --jobs $(JOBS) --cuda 0 --sanitize thread
	ONSTREAM_BUILD=$(BUILD)-address $(BIN)/python -m pytest -q tests/python/test_native.py
	ONSTREAM_BUILD=$(BUILD)-thread $(BIN)/python -m pytest -q tests/python/test_native.py

docs: build
	$(BIN)/python tools/parameters_page.py > docs/parameters.md
	@$(MAKE) --no-print-directory site

# The pages of docs/ by Sphinx, anew. A warning, such as for a link that leads nowhere, is an error.
site: setup-check build
	$(BIN)/sphinx-build --quiet --fresh-env --write-all --fail-on-warning --keep-going -b html docs build-docs
	@echo "build-docs/index.html has the documentation"

gpu-check: CUDA = 1
gpu-check: build
	bash tools/gpu_check.sh

gpu-bench: CUDA = 1
gpu-bench: build
	bash tools/gpu_bench.sh "$(OUT)"

clean:
	rm -rf $(VENV) build-docs $(BUILD) $(BUILD)-libmp $(BUILD)-install $(BUILD)-address $(BUILD)-thread
