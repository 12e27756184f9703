# Everything one does here, one target each. Needs Python 3.11 to 3.14, make and g++; `make run` brings the rest.

PYTHON ?= python3
VENV := .venv
# requirements (CUDA 13) or cuda12, the pins of envs/$(ENV).txt: what .venv was made from, else CUDA 13.
# Not ?=, because shells, and NVIDIA's containers for them, have an environment variable of that name.
ENV := $(firstword $(patsubst $(VENV)/.%,%,$(wildcard $(VENV)/.cuda12 $(VENV)/.requirements)) requirements)
# a folder that `make wheels` filled: install from it, without a network
WHEELS ?=
# the Python that `make wheels` collects for
TARGET_PYTHON ?= $(shell $(PYTHON) -c 'import sys; print("%d.%d" % sys.version_info[:2])')
# an optional environment, envs/$(EXTRA).txt, in a folder of its own in .venv: triton, cutile, cute; slurm, in .venv itself
EXTRA ?=
EXTRAS := triton cutile cute slurm
$(if $(filter-out $(EXTRAS),$(EXTRA)),$(error EXTRA=$(EXTRA) is no optional environment; give one of: $(EXTRAS)))
ARGS ?=
UV ?= uv
# for `make newest`
SNAKEMAKE ?=

BIN := $(VENV)/bin
TOOLS := PATH="$$PWD/$(BIN):$$PATH"
# Another Python than that of .venv, asked for by name, or one that is there no more: .venv is made anew
ASKED := $(if $(filter command,$(firstword $(origin PYTHON))),$(PYTHON),$(BIN)/python)
OTHER := $(if $(wildcard $(VENV)/pyvenv.cfg),$(shell test "$$($(BIN)/python -V 2>&1)" = "$$($(ASKED) -V 2>&1)" \
	&& $(BIN)/python -c '' >/dev/null 2>&1 || echo other))
CUDA := $(if $(filter cuda12,$(ENV)),12,13)
CUBLAS := cublas$(addprefix -,$(ENV:requirements=))

PIP := -m pip --disable-pip-version-check -q
# Snakemake's connection-pool, and its immutables on Python 3.14, are built from source, by the setuptools of
# envs/build.txt and no other, and CC=true leaves out their C code: Python's headers may be missing, and immutables has
# the same in Python
HASHED := --require-hashes --no-build-isolation
INSTALL := CC=true $(BIN)/python $(PIP) install $(HASHED) --no-compile $(if $(WHEELS),--no-index --find-links $(WHEELS))
# wheels for glibc 2.28 and everything older
PLATFORMS = $(patsubst %,--platform manylinux_2_%_x86_64,$(shell seq 5 28)) --platform manylinux2014_x86_64
LOCK := $(UV) pip compile -q --python-version 3.11 --python-platform x86_64-manylinux_2_28 --generate-hashes \
	--only-binary :all: --no-binary connection-pool --no-emit-index-url --no-emit-find-links \
	--custom-compile-command "make lock"
SOURCES = $(foreach end,cu cuh h cpp,$(wildcard kernels/*.$(end) kernels/*/*.$(end) kernels/*/*/*.$(end) \
	workflow/ladder/*/*.$(end)))

define CHECK_PYTHON
@$(PYTHON) -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 15))' 2>/dev/null || { \
	  echo 'make: $(PYTHON) is not Python 3.11, 3.12, 3.13 or 3.14; name one that is: make env PYTHON=python3.12' >&2; exit 1; }
@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { \
	  echo 'make: $(PYTHON) has no venv module; on Debian and Ubuntu the package python3-venv brings it' >&2; exit 1; }
endef

.PHONY: help env run bundle doctor dev test newest test-slurm lint format docs library faults seeds mutants architectures lock wheels clean other
.DEFAULT_GOAL := help

help: ## this list
	@while IFS= read -r line; do case "$$line" in \
	  [a-z]*:*'## '*) printf 'make %-14s%s\n' "$${line%%:*}" "$${line#*## }";; esac; done < Makefile
	@echo 'What the pipeline makes, and the names of GPUs and rungs: make run ARGS=help'

env: $(VENV)/.$(ENV) $(EXTRA:%=$(VENV)/extra/%) ## make .venv from the pins, once (ENV=cuda12, PYTHON=python3.12, WHEELS=folder, EXTRA=triton)

# Beside the packages of .venv and not among them, for a compiler may bring a CUDA of another version.
$(VENV)/extra/%: envs/%.txt $(VENV)/.$(ENV)
	rm -rf $@
	$(BIN)/python $(PIP) install --require-hashes --no-compile $(if $(WHEELS),--no-index --find-links $(WHEELS)) \
	  --target $@ -r $<
	@touch $@

# Snakemake finds an executor among the packages of .venv only.
$(VENV)/extra/slurm: envs/slurm.txt $(VENV)/.$(ENV)
	$(INSTALL) --no-deps -r $<
	@mkdir -p $(@D) && touch $@

# From nothing each time the pins change, so that it holds them and nothing else.
$(VENV)/.$(ENV): envs/build.txt envs/$(ENV).txt envs/$(CUBLAS).txt $(OTHER)
	$(CHECK_PYTHON)
	@test ! -L $(VENV) || { \
	  echo 'make: $(VENV) is a link: what it leads to would be emptied; remove the link first: rm $(VENV)' >&2; exit 1; }
	$(PYTHON) -m venv --clear $(VENV)
	$(INSTALL) -r envs/build.txt
	$(INSTALL) -r envs/$(ENV).txt
	@$(BIN)/python -W ignore -m compileall -q -j 0 $(VENV)/lib || true
	@if nvidia-smi -L >/dev/null 2>&1; then case "$$(PATH="$$PATH:/usr/sbin:/sbin" ldconfig -p 2>/dev/null)" in \
	  *libcublas.so.$(CUDA)*) ;; \
	  *) echo 'No cuBLAS $(CUDA) is installed here: adding envs/$(CUBLAS).txt'; $(INSTALL) -r envs/$(CUBLAS).txt;; \
	esac; fi
	@ln -sfn "$$PWD/workflow/snakemake_logger_plugin_ladder" \
	  "$$($(BIN)/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/snakemake_logger_plugin_ladder"
	@touch $@

# The settings of profiles/default as flags: of a profile Snakemake says so first, and the first line of a run is to be
# ours, which says on which GPU and when its numbers were recorded.
run: env ## run the pipeline (ARGS=... goes to snakemake)
	@$(TOOLS) python -m snakemake --workflow-profile none --rerun-incomplete --quiet rules --logger ladder --nolock \
	  --scheduler greedy --cores all $(ARGS)

# A stage that fails, as where no compute-sanitizer is, leaves its records out and not the bundle.
bundle: env ## measure all on the GPU of this machine, then write one file that you can send in (docs/send-in.md)
	-@$(MAKE) --no-print-directory run ARGS='--keep-going all survey sanitize hardware'
	$(TOOLS) python workflow/bundle.py make $(ARGS)

doctor: env ## say what this machine lacks to compile, measure and profile, and what to do
	$(TOOLS) python workflow/doctor.py

dev: $(VENV)/.dev

$(VENV)/.dev: $(VENV)/.$(ENV) envs/dev.txt envs/mutants.txt
	$(INSTALL) -r envs/dev.txt
	$(INSTALL) --no-deps -r envs/mutants.txt
	@touch $@

test: lint ## lint, then the tests (ARGS=... goes to pytest)
	$(TOOLS) python -m pytest -n $$(nproc) --dist worksteal $(ARGS)

# Of the tests, those that start Snakemake: `make test` runs them with the pinned one.
newest: dev ## the tests of the workflow with the newest Snakemake (SNAKEMAKE=9.26.1: with that one)
	@pinned=$$(sed -n 's/^snakemake==\([^ ]*\).*/\1/p' envs/requirements.txt); \
	other='$(SNAKEMAKE)'; other=$${other:-$$($(BIN)/python -m pip index versions snakemake 2>&1 | sed -n "s/^snakemake (\(.*\))/\1/p")}; \
	if [ -z "$$other" ]; then echo 'make: no package index in reach: only the pinned Snakemake can be tested'; exit; fi; \
	if [ "$$other" = "$$pinned" ]; then echo "The newest Snakemake is the pinned one, $$pinned"; exit; fi; \
	set -ex; rm -rf build/newest; $(BIN)/python $(PIP) install --target build/newest "snakemake==$$other"; \
	PYTHONPATH="$$PWD/build/newest" $(TOOLS) python -m pytest -n $$(nproc) --dist worksteal \
	  $$(grep -l snakemake tests/test_*.py) $(ARGS)

test-slurm: dev ## the tests on a Slurm of one node that is started here; skips in one line where it cannot be
	$(TOOLS) python -m pytest -rs tests/test_slurm.py $(ARGS)

lint: dev ## check style; changes nothing
	$(TOOLS) snakefmt --check Snakefile workflow
	$(TOOLS) snakemake --lint
	$(TOOLS) ruff check
	$(TOOLS) ruff format --check
	$(TOOLS) clang-format --dry-run -Werror $(SOURCES)

format: dev ## rewrite the sources in that style
	$(TOOLS) snakefmt Snakefile workflow
	$(TOOLS) ruff check --fix
	$(TOOLS) ruff format
	$(TOOLS) clang-format -i $(SOURCES)

docs: dev ## write the pages that have a template in docs/templates, with the numbers of tables and records
	$(TOOLS) python tools/write_docs.py

library: env ## build libgemm_ladder.so, its header, Python module and cuBLAS shim in build/library (RUNG=fastest)
	$(TOOLS) python workflow/library.py $(or $(RUNG),fastest) $(ARGS)

faults: dev ## run the corpus of faults in the emulator and write docs/faults.md
	$(TOOLS) python tools faults emulator
	$(TOOLS) python tools/write_docs.py

seeds: dev ## run every sound kernel with 200 seeds in the emulator; no finding is the pass
	$(TOOLS) python tools faults seeds

mutants: dev ## try changes that nobody chose in the emulator, ten minutes at a time, and write docs/mutants.md
	$(TOOLS) python tools mutants emulator
	$(TOOLS) python tools mutants compare
	$(TOOLS) python tools/write_docs.py

architectures: dev ## compile what has changed for every GPU's architecture and write docs/architectures.md
	$(TOOLS) python tools architectures compile
	$(TOOLS) python tools/write_docs.py

wheels: ## fill ./wheels for a machine without a network (ENV=cuda12, TARGET_PYTHON=3.12)
	$(CHECK_PYTHON)
	$(PYTHON) -m venv --clear build/carrier
	build/carrier/bin/python $(PIP) install $(HASHED) --no-compile -r envs/build.txt
	@echo 'Collecting for Python $(TARGET_PYTHON), Linux x86_64, in ./wheels'
	@build/carrier/bin/python $(PIP) download $(HASHED) --no-deps --python-version $(TARGET_PYTHON) $(PLATFORMS) -d wheels \
	  $(foreach pins,build $(ENV) $(CUBLAS) dev mutants,-r envs/$(pins).txt)

lock: ## for maintainers: pin envs/*.in anew, with uv (ARGS=--upgrade takes newer versions)
	$(LOCK) $(ARGS) envs/build.in -o envs/build.txt
	$(LOCK) $(ARGS) envs/requirements.in -o envs/requirements.txt
	cp envs/requirements.txt envs/cuda12.txt  # uv keeps the versions that it finds there
	$(LOCK) envs/cuda12.in -o envs/cuda12.txt
	$(LOCK) envs/cublas.in -c envs/requirements.txt -o envs/cublas.txt
	$(LOCK) envs/cublas-cuda12.in -c envs/cuda12.txt -o envs/cublas-cuda12.txt
	$(LOCK) $(ARGS) envs/triton.in -o envs/triton.txt
	$(LOCK) $(ARGS) envs/cutile.in -o envs/cutile.txt
	$(LOCK) $(ARGS) envs/cute.in -o envs/cute.txt
	$(LOCK) --no-deps envs/slurm.in -o envs/slurm.txt
	$(LOCK) $(ARGS) envs/dev.in -c envs/requirements.txt -o envs/dev.txt
	$(LOCK) $(ARGS) --no-deps envs/mutants.in -o envs/mutants.txt

clean: ## remove build/, logs/ and .snakemake/; results stay
	rm -rf build logs .snakemake
