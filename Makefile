# Windrow. `make help` explains every target. Those that need .venv make it first, or again after a change of
# pyproject.toml. PYTHON=python3.12 chooses the Python it is made of, JOBS=4 how many processes run tests, MINUTES=30
# how long a soak draws random cases.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
JOBS ?= 2
MINUTES ?= 90

.DEFAULT_GOAL := help
.PHONY: help install demo test lint fmt bench lab kafka soak docs pictures package clean

help: ## this text
	@echo "Windrow: window joins of data streams inside a given budget"
	@echo
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "  make %-9s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

install: $(READY) ## install everything into .venv (Python 3.11+; a Java runtime too if there is none)

$(READY): pyproject.toml lab/pyproject.toml scripts/install
	@PYTHON="$(PYTHON)" VENV="$(VENV)" bash scripts/install
	@touch $(READY)

demo: $(READY) ## join generated auctions and bids, with progress and a summary
	@$(BIN)/windrow demo

test: $(READY) ## lint, types, import rules and the tests, with one fault of each kind
	@told=$$(mktemp); $(MAKE) --no-print-directory lint >$$told 2>&1 & lint=$$!; \
	$(BIN)/python -m pytest -n $(JOBS) --dist worksteal; tests=$$?; \
	wait $$lint; linted=$$?; cat $$told; rm $$told; \
	[ $$linted -eq 0 ] || echo "make lint failed: see above"; [ $$tests -eq 0 ] && exit $$linted; exit $$tests

lint: $(READY) ## ruff, mypy and the import rules
	@$(BIN)/ruff check src lab tests examples scripts
	@$(BIN)/ruff format --check src lab tests examples scripts
	@$(BIN)/lint-imports --no-cache & imports=$$!; $(BIN)/mypy; types=$$?; wait $$imports && exit $$types

fmt: $(READY) ## format the code
	@$(BIN)/ruff check --fix src lab tests examples scripts
	@$(BIN)/ruff format src lab tests examples scripts

bench: $(READY) ## speed and memory against bare kernels and DuckDB, as ratios
	@$(BIN)/windrow bench

lab: $(READY) ## every experiment of the papers, first quick, then at full size; evidence into lab/results/; judged
	@$(BIN)/python -m pytest -n $(JOBS) --dist worksteal --lab -m lab
	@$(BIN)/windrow lab run --all --out lab-results --keep lab/results
	@$(BIN)/windrow lab report lab/results --into docs/papers.md

kafka: $(READY) ## the tests against a Kafka broker, which they start; needs Maven
	@$(BIN)/python -m pytest --kafka -m kafka

soak: $(READY) ## random schedules, queries and joins on Spark for MINUTES=90, then every fault and Kafka
	@bash scripts/soak $(BIN)/python $(JOBS) $(MINUTES)

docs: $(READY) ## the documentation site, into build/site; any warning is an error
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -e ".[docs]"
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict
	@! grep -rhoE '<(script|link|img|iframe)[^>]+(src|href)="?https?://[^"> ]+' build/site --include='*.html'
	@echo "build/site/index.html"

pictures: $(READY) ## the screenshots in docs/pictures; needs Chromium
	@PYTHONPATH=tests $(BIN)/python scripts/pictures.py

package: $(READY) ## wheel and source distribution into dist/, checked, installed elsewhere, and run there
	@rm -rf dist
	@$(BIN)/python -m build --outdir dist .
	@bash scripts/try-package "$(PYTHON)" dist
	@$(BIN)/python -m build --outdir dist/lab lab

clean: ## remove .venv, caches and what was built; results in *-results/ stay
	rm -rf $(VENV) .pytest_cache .ruff_cache .mypy_cache .hypothesis build dist
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
