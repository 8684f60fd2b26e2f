# What a person runs. Plain python3 (3.11 or newer) and make are all that `demo` and `test` need.

PYTHON ?= python3
UV     ?= uv
JOBS   ?= $(shell n=$$(nproc 2>/dev/null) && expr $$n + 1 || echo auto)  # many tests wait for a disk or a child
VENV   := .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip --disable-pip-version-check
RUN    := requirements/run.txt
TEST   := requirements/test.txt
TOOLS  := requirements/model.txt
SHARED := numpy protobuf typing-extensions
MODEL  := build/model

.PHONY: help demo test lint pytest torture bench docs model lock wheel clean
.DELETE_ON_ERROR:

help:  ## show this list
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 10

demo: $(VENV)/run.stamp with-model compiled  ## a story on generated data: what memlake does, in a minute
	$(BIN)/python examples/demo.py

test: lint pytest  ## everything CI runs: lint, format, types, tests

lint: $(VENV)/test.stamp
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

pytest: $(VENV)/test.stamp with-model compiled
	$(BIN)/python -m pytest -n $(JOBS) --dist worksteal

torture: $(VENV)/test.stamp with-model compiled  ## the long reliability tests, or one part of them: make torture PART=power
	$(BIN)/python -m tests.torture $(PART) $(if $(AGAIN),--again)

bench: $(VENV)/test.stamp compiled  ## measure the figures of docs/benchmarks.md
	$(BIN)/python benchmarks/versioning.py

docs: $(VENV)/run.stamp  ## write docs/reference, the output on the pages and the picture again
	$(BIN)/python docs/generate.py

model: $(VENV)/model.stamp  ## fetch the local embedding model, convert it and install it

lock:  ## resolve pyproject.toml again into the pinned requirements (needs uv)
	@command -v $(UV) >/dev/null || { echo "make lock needs uv: pip install uv, or make lock UV=/path/to/uv" >&2; exit 1; }
	$(call resolve,pyproject.toml --group build,$(RUN))
	$(call resolve,pyproject.toml --group build --group test --constraint $(RUN),$(TEST))
	$(call resolve,--group model --constraint $(RUN) $(addprefix --no-emit-package ,$(SHARED)),$(TOOLS))

# --universal: one file serves every Python and system. Index addresses are the reader's own business, so the
# resolver is told to write none, and the last line fails if one got in.
define resolve
	$(UV) pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-annotate $(LOCK_FLAGS) \
	    --custom-compile-command "make lock" $(1) --output-file $(2)
	@if grep -nE '://|^ *--(index-url|extra-index-url|find-links|trusted-host)' $(2); then echo "$(2) has an address in it" >&2; exit 1; fi
endef

wheel: $(VENV)/test.stamp  ## build the wheel and the source archive into dist/
	$(BIN)/python -m build --no-isolation

clean:  ## remove what the other commands made
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find src tests benchmarks examples -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true

# Start-up is measured compiled, also where PYTHONDONTWRITEBYTECODE is set.
.PHONY: compiled
compiled: $(VENV)/run.stamp
	@$(BIN)/python -m compileall -q src

# The pinned files hold the build backend too, so installing ourselves resolves and downloads nothing more.
$(VENV)/run.stamp: $(RUN) pyproject.toml
	@$(PYTHON) -c 'import sys; sys.version_info >= (3, 11) or sys.exit("memlake needs Python 3.11 or newer; this is %s. Name one: make PYTHON=python3.12" % sys.version.split()[0])'
	$(PYTHON) -m venv $(VENV)
	$(PIP) install --quiet --require-hashes -r $(RUN)
	$(PIP) install --quiet --no-deps --no-build-isolation -e .
	@touch $@

$(VENV)/test.stamp: $(TEST) $(VENV)/run.stamp
	$(PIP) install --quiet --require-hashes -r $(TEST)
	@touch $@

# Without the model everything but search by meaning works, so a machine that cannot fetch it goes on; CI does not.
.PHONY: with-model
with-model: $(VENV)/run.stamp
	@$(MAKE) --no-print-directory model || echo "memlake: going on without the local embedding model: search finds words, \
	not meaning. Try again later with: make model" >&2

$(VENV)/model.stamp: $(MODEL)/wheel.stamp $(VENV)/run.stamp
	$(PIP) install --quiet --no-deps --no-index --force-reinstall $(MODEL)/memlake_minilm-*.whl
	@touch $@

# The tools that write the model stay out of .venv: a user never needs them. What they SHARE with it is taken from it.
$(MODEL)/wheel.stamp: $(TOOLS) $(wildcard packages/memlake-minilm/*.* packages/memlake-minilm/*/*.py) | $(VENV)/run.stamp
	@mkdir -p $(MODEL)
	$(PIP) install --quiet --require-hashes --no-deps --no-compile --upgrade --target $(MODEL)/tools -r $(TOOLS)
	PYTHONPATH=$(MODEL)/tools $(BIN)/python packages/memlake-minilm/build.py $(MODEL)
	@rm -rf $(MODEL)/tools $(MODEL)/package
	@touch $@
