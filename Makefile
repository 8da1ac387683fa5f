# `make chat` on a clean clone is all it takes. Needs Python 3.11+, a C++ compiler, GNU make 3.81+.
#   make chat MODEL=path/to/model.gguf ARGS="--ctx 8192"
#   make PYTHON=python3.12 chat             another Python for the environment
#   make CMAKE_ARGS=-DGGML_CUDA=ON chat     compile llama.cpp for CUDA (docs in README.md)

PYTHON ?= python3
MODEL ?=
ARGS ?=
CMAKE_ARGS ?=

VENV := .venv
BIN := $(VENV)/bin
# Two workers; what loads a real model stays in one of them (tests/conftest.py).
SPREAD := -n 2 --dist loadgroup
STARTER := models/SmolLM2-135M-Instruct.Q4_1.gguf
GEMMA := models/gemma-3-270m-Q4_K_M.gguf
NODE_CLIENT := tests/node/node_modules/openai
# Only warnings and errors, and on stderr: stdout belongs to the command that was asked for.
CONSTRAINTS := constraints.txt
INSTALL := $(BIN)/python -m pip --quiet --disable-pip-version-check install -c $(CONSTRAINTS)

.PHONY: help chat serve plan worker rpc model test oldest check screenshots soak measured format bundle bundle-tools bundle-check node fuzz clean

help:  ## show this list
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/make \1\t\2/p' Makefile | expand -t 20

chat: $(VENV)/run-installed $(if $(MODEL),,$(STARTER))  ## talk to a model in the terminal
	@$(BIN)/edgekv chat $(if $(MODEL),"$(MODEL)") $(ARGS)

serve: $(VENV)/run-installed $(if $(MODEL),,$(STARTER))  ## OpenAI-style server on 127.0.0.1:8642
	@$(BIN)/edgekv serve $(if $(MODEL),"$(MODEL)") $(ARGS)

plan: $(VENV)/run-installed $(if $(MODEL),,$(STARTER))  ## what would be allocated here; loads nothing
	@$(BIN)/edgekv plan $(if $(MODEL),"$(MODEL)") $(ARGS)

worker: $(VENV)/run-installed $(VENV)/rpc-built  ## lend this machine's memory to an EdgeKV on another
	@$(BIN)/edgekv worker $(ARGS)

rpc: $(VENV)/rpc-built  ## llama.cpp's RPC backend, for `edgekv worker` and --workers

model: $(STARTER)  ## fetch the starter model (98 MB) and verify it

test: $(VENV)/dev-installed $(VENV)/rpc-built $(STARTER) $(GEMMA)  ## the tests, real models included
	@$(BIN)/python -m pytest $(SPREAD) $(ARGS)

# An environment of its own. The two left out would ask for a newer httpx2, and what constraints.txt
# holds is no question there.
PINS := tests/unit/test_repository.py::test_what_the_dependencies_need_themselves_is_pinned_too
oldest:  ## the tests with the oldest libraries that pyproject.toml allows
	@mkdir -p build
	@{ sed -n '/^dependencies/,/^]/s/^ *"\([a-z0-9-]*\)>=\([0-9.]*\).*/\1==\2/p' pyproject.toml; \
	  grep -vE '^(httpcore2|openai)=' constraints.txt; } | awk -F== '!seen[$$1]++' > build/oldest.txt
	@$(MAKE) test VENV=build/oldest CONSTRAINTS=build/oldest.txt ARGS="--deselect $(PINS)"

fuzz: $(VENV)/dev-installed $(STARTER)  ## odd requests to a real server, for MINUTES=10
	@$(BIN)/python -m tests.server.fuzzing --minutes $(or $(MINUTES),10)

node: $(NODE_CLIENT)  ## OpenAI's client for Node, which a test uses

check: $(VENV)/dev-installed $(VENV)/rpc-built $(STARTER) $(GEMMA) $(if $(shell command -v npm),$(NODE_CLIENT))  ## everything CI checks: format, lint, types, imports, tests
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m pytest $(SPREAD)

screenshots: $(VENV)/dev-installed  ## draw the pictures of docs/ and the texts that tests compare
	@$(BIN)/python -m tests.tui.screenshots

soak: $(VENV)/dev-installed $(STARTER)  ## everything at once on a real server, for MINUTES=30
	@$(BIN)/python -m bench.soak --minutes $(or $(MINUTES),30)

measured: $(VENV)/dev-installed  ## the tables and pictures of kept results (bench/results/)
	@$(BIN)/python -m bench.publish

format: $(VENV)/dev-installed  ## mend the format and what the linter can mend
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

# Asked before anything is compiled.
bundle-tools: | $(VENV)/made
	@command -v cmake >/dev/null || { \
	  echo "A bundle needs CMake: 'sudo apt install cmake' (Debian, Ubuntu, Jetson)," \
	       "'brew install cmake' (macOS)" >&2; exit 1; }
	@$(BIN)/python -c 'import sys, sysconfig as s; sys.exit(not (s.get_config_var("Py_ENABLE_SHARED") or s.get_config_var("PYTHONFRAMEWORK")))' || { \
	  echo "A bundle needs a Python with a shared library, and the one of $(VENV) has none: take" \
	       "the system's, or with pyenv PYTHON_CONFIGURE_OPTS=--enable-shared; then 'make clean'" >&2; exit 1; }

bundle: bundle-tools $(VENV)/dev-installed  ## a folder, and one file, that run where no Python is
	@$(BIN)/python packaging/build_library.py --out build/llama
	@$(BIN)/python packaging/bundle.py --libraries build/llama

bundle-check: $(STARTER)  ## try both as people use them (as root: in a root of their own, too)
	@$(BIN)/python packaging/check_bundle.py dist/edgekv-*-linux-$(shell uname -m).tar.xz \
	  --onefile dist/edgekv-onefile --model $(STARTER)

clean:  ## remove the environment and caches; models stay
	rm -rf tests/node/node_modules $(VENV) build dist *.egg-info models/.parts
	rm -rf .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	find edgekv tests models -name __pycache__ -type d -prune -exec rm -rf {} +

# --- the environment: each file below is touched when its step is done ---

$(VENV)/made:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "EdgeKV needs Python 3.11 or newer and '$(PYTHON)' is not;" \
	       "name one that is: make PYTHON=python3.12 chat" >&2; exit 1; }
	@$(PYTHON) -m venv $(VENV) >&2
	@touch $@

# EdgeKV loads llama.cpp's two libraries and nothing around them: half the compile time.
LLAMA_CMAKE := -DLLAVA_BUILD=OFF \
  "-DCMAKE_PROJECT_llama.cpp_INCLUDE=$(CURDIR)/packaging/llama-library-only.cmake"
CMAKE_BUILD_PARALLEL_LEVEL ?= $(shell getconf _NPROCESSORS_ONLN)
export CMAKE_BUILD_PARALLEL_LEVEL

# The file holds the CMAKE_ARGS of the installed build. Without CMAKE_ARGS that build stays,
# other CMAKE_ARGS replace it. pip's wheel cache does not tell builds apart, so only the plain
# build may come from it.
BUILT_WITH := $(strip $(shell cat $(VENV)/llama-built 2>/dev/null))
BUILD_WITH := $(or $(strip $(CMAKE_ARGS)),$(BUILT_WITH))
LLAMA_PIP := $(if $(BUILD_WITH),--no-cache-dir)
ifneq ($(BUILD_WITH),$(BUILT_WITH))
LLAMA_PIP += --force-reinstall --no-deps
.PHONY: $(VENV)/llama-built
endif

$(VENV)/llama-built: $(CONSTRAINTS) | $(VENV)/made
	@command -v "$${CXX:-c++}" >/dev/null || { \
	  echo "EdgeKV compiles llama.cpp and found no C++ compiler; install one:" \
	       "'sudo apt install g++' (Debian, Ubuntu, Jetson), 'xcode-select --install' (macOS)," \
	       "or name yours in CXX" >&2; exit 1; }
	@echo "Installing llama.cpp; the first time it is compiled, which takes some minutes …" >&2
	@CMAKE_ARGS='$(LLAMA_CMAKE) $(BUILD_WITH)' $(INSTALL) $(LLAMA_PIP) llama-cpp-python >&2
	@echo '$(BUILD_WITH)' > $@

$(VENV)/rpc-built: $(VENV)/llama-built packaging/build_rpc.py
	@echo "Compiling llama.cpp's RPC backend …" >&2
	@$(BIN)/python packaging/build_rpc.py >&2
	@touch $@

$(VENV)/run-installed: pyproject.toml $(CONSTRAINTS) $(VENV)/llama-built
	@echo "Installing EdgeKV …" >&2
	@$(INSTALL) -e . >&2
	@touch $@

$(VENV)/dev-installed: $(VENV)/run-installed
	@echo "Installing what the checks need …" >&2
	@$(INSTALL) -e '.[dev]' >&2
	@touch $@

$(NODE_CLIENT): tests/node/package.json
	@npm install --prefix tests/node --no-package-lock --no-audit --no-fund --loglevel=error >&2
	@touch $@

# --- models ---

$(STARTER): models/catalog.toml | $(VENV)/made
	@$(BIN)/python models/fetch.py starter
	@touch $@

$(GEMMA): models/catalog.toml | $(VENV)/made
	@$(BIN)/python models/fetch.py gemma
	@touch $@
