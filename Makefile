# One line each, the same in CI. `make demo` and `make test` set up what they need.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
BIN := .venv/bin

.PHONY: demo check test goldens schemas docs bench lock check-latest clean

demo: .venv/server
	$(BIN)/projector demo

test: .venv/dev
	$(BIN)/python -m pytest

check: .venv/dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m projector.generate --check

goldens: .venv/dev
	$(BIN)/projector replay --update

schemas docs: .venv/dev
	$(BIN)/python -m projector.generate

lock:
	$(PYTHON) -m venv .venv && $(BIN)/pip install --quiet uv
	$(BIN)/uv pip compile pyproject.toml --quiet --universal --python-version 3.11 --no-emit-index-url --no-header \
	    --generate-hashes --extra server --output-file requirements/server.txt
	$(BIN)/uv pip compile pyproject.toml --quiet --universal --python-version 3.11 --no-emit-index-url --no-header \
	    --generate-hashes --all-extras --group dev --output-file requirements/dev.txt

clean:
	rm -rf .venv .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache

.venv/server: requirements/server.txt requirements/build.txt
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --require-hashes -r requirements/build.txt -r requirements/server.txt
	$(BIN)/pip install --quiet --no-deps --no-build-isolation --editable .
	touch $@

.venv/dev: requirements/dev.txt
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --require-hashes -r requirements/dev.txt
	$(BIN)/pip install --quiet --no-deps --no-build-isolation --editable .
	touch $@ .venv/server
