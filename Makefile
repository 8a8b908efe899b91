# Everything runs in .venv, which is made from nothing: `make venv`.

.DEFAULT_GOAL := help
.PHONY: help venv demo test test-all test-versions check docs build bench-peers bench-catalogue format clean

PY := .venv/bin/python
STAMP := .venv/.installed

help: ## List the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "make %-15s %s\n", $$1, $$2}'

venv: $(STAMP) ## Create .venv with a Python that fits and install tfopt into it

# A Python that fits is one that TensorFlow has wheels for; where there is none, say so.
$(STAMP): pyproject.toml
	@sh tools/make_venv.sh .venv
	@touch $@

demo: venv ## Train a real model faster, and see how sure that is (about four minutes)
	@.venv/bin/tfopt apply quickstart

# A worker for each core: most of a test is the start of a process, which one core does. Where no
# bytecode may be written, each of these processes would compile all of tfopt again.
PYTEST := PYTHONDONTWRITEBYTECODE= $(PY) -m pytest -q -n logical --dist worksteal --durations=10

test: venv ## Run the tests but for those marked `thorough`
	@$(PYTEST) -m "not thorough"

test-all: venv ## Run all tests, as CI does
	@$(PYTEST) --hypothesis-profile=thorough

test-versions: venv ## Run the fast tests on the oldest and the newest versions of what tfopt needs
	@$(PY) tools/try_versions.py $(if $(ARGS),$(ARGS),--write)

check: venv ## Run ruff, mypy, import-linter, and compare docs/reliability.md with the tests
	@.venv/bin/ruff check .
	@.venv/bin/ruff format --check .
	@.venv/bin/mypy
	@.venv/bin/lint-imports
	@$(PY) tools/render_reliability.py --check

DOCS := .venv-docs/bin/python

docs: ## Build the site from the Markdown files into build/docs; a warning is an error
	@test -x $(DOCS) || sh tools/make_venv.sh .venv-docs --group docs
	@rm -rf build/docs
	@$(DOCS) -m sphinx -q -W --keep-going -c docs . build/docs
	@echo "build/docs/index.html"

build: venv ## Build the wheel and the sdist into dist
	@$(PY) -m hatchling build -d dist

PEERS := .venv-peers/bin/python

bench-peers: venv ## Race against Keras on JAX and PyTorch, write docs/peers.md (about 80 minutes)
	@test -x $(PEERS) || $(PY) -m venv .venv-peers
	@$(PEERS) -m pip install --quiet --requirement benchmarks/peers/requirements.txt
	@$(PY) benchmarks/race.py --peers $(PEERS) --out docs/peers.md $(ARGS)

bench-catalogue: venv ## Measure each plugin alone, write docs/catalogue.md (about 45 minutes)
	@$(PY) benchmarks/catalogue.py $(ARGS)

format: venv ## Format the code
	@.venv/bin/ruff check --fix .
	@.venv/bin/ruff format .

clean: ## Remove the environment and what tools left
	rm -rf .venv .venv-docs .venv-versions .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache dist build
