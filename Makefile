# CI uses the same targets. Each one installs its requirements first.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
BIN := .venv/bin
LOCK := $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --no-emit-index-url --no-header --generate-hashes
IMAGE := build/image
PARALLEL := --numprocesses auto --dist worksteal
# one worker more than processors, because many of these tests wait: for processes, browsers and clocks
ONE_MORE = --numprocesses $$($(BIN)/python -c "import os; print(os.cpu_count() + 1)") --dist worksteal
unexport PYTHONDONTWRITEBYTECODE # tests start hundreds of processes, and each would compile all modules

.PHONY: demo test test-all check goldens schemas docs page picture bench bench-compare bench-store bench-proxy bench-cost bench-capacity bench-page soak fuzz mutants wheel sbom release-check site lock check-latest clean

demo: .venv/server          # serve the built-in provider
	$(BIN)/projector demo

test: .venv/dev             # units, contracts, goldens, a sample of the rest; about a minute on two cores
	$(BIN)/python -m pytest --tier test $(PARALLEL)

test-all: .venv/dev .clients/ready .site/ready wheel   # the rest: every property, the server, real clients, recorded streams, deployment
	$(BIN)/python -m pytest --tier rest $(ONE_MORE)

check: .venv/dev            # style, types, layers, generated files, goldens, docs
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo
	$(BIN)/zizmor --offline --quiet --min-severity medium .github
	$(BIN)/python -m projector.generate --check
	$(BIN)/python -m tests.protocols.schemas --check
	$(BIN)/projector replay
	$(BIN)/python -m pytest -q tests/docs

goldens: .venv/dev          # write the golden outputs of examples_ndjson
	$(BIN)/projector replay --update

schemas docs: .venv/dev     # write the files generated from models and tables
	$(BIN)/python -m tests.protocols.schemas
	$(BIN)/python -m projector.generate
	$(BIN)/python -m bench.capacity_plan --update
	$(BIN)/python tests/clients/clients_table.py
	$(BIN)/python tests/clients/frontend_events.py

page:                       # build the demo page; needs `npm ci` in clients/typescript
	npm run --silent demo --prefix clients/typescript

picture: .venv/server       # take the picture of the demo page in the README; needs chromium too
	node clients/typescript/demo/picture.mjs $(BIN)/projector docs/demo-page.png

bench: .venv/dev            # cost per event and of start-up, as ratios
	$(BIN)/python bench/run.py
	$(BIN)/python bench/linear.py
	$(BIN)/python bench/startup.py
	$(BIN)/python -m bench.instructions

bench-store: .venv/dev      # the cost of storing and reading an event, in each store
	$(BIN)/python -m bench.store
	$(BIN)/python bench/store_server.py
	$(BIN)/python -m bench.store_traffic

bench-proxy: .venv/dev      # the server compared with a pass-through proxy, on loopback
	$(BIN)/python bench/proxy.py

bench-cost: .venv/dev       # instructions of the server for a stream, where valgrind is installed
	$(BIN)/python bench/cost.py

bench-capacity: .venv/dev   # what an open stream costs, and whether the plan of docs/capacity.md holds
	$(BIN)/python bench/capacity.py

bench-page: .venv/dev       # how long 10,000 deltas block the main thread of a page; needs `npm ci` in deploy/nextjs
	cd deploy/nextjs && node node_modules/next/dist/bin/next build
	node --test-name-pattern="at once" tests/deploy/nextjs_page.test.mjs $(CURDIR)/deploy/nextjs $(CURDIR)/$(BIN)/python $$(command -v chromium) $$(mktemp -d)
	node --test-name-pattern="at once" tests/deploy/demo_page.test.mjs $(CURDIR)/$(BIN)/python $$(command -v chromium) $$(mktemp -d)

bench-compare: .venv/dev .compare/ready   # beside nginx, sglang-router and LiteLLM, which take 0.7 GB; writes docs/performance.md
	$(BIN)/python bench/compare.py --update

soak: .venv/dev             # minutes of traffic on loopback; measures memory and loop lag
	$(BIN)/python bench/soak.py

fuzz: .venv/dev             # many thousands of random inputs; turn each finding into a test
	PROJECTOR_TESTS_EFFORT=50 $(BIN)/python -m pytest tests/asgi/test_chaos.py tests/fuzz tests/property/test_pipeline_properties.py tests/property/test_recording_properties.py tests/property/test_redaction_draws.py --timeout=0

mutants: .venv/dev .mutants/ready   # the tests against 400 random mutants; a stopped run continues, `rm build/mutants*` begins anew
	mkdir -p build
	test -s build/mutants.jsonl || .mutants/bin/cosmic-ray init tests/mutants/cosmic-ray.toml build/mutants.sqlite
	test -s build/mutants.jsonl || .mutants/bin/python tests/mutants/draw.py build/mutants.sqlite 400 20261126 > build/mutants.part
	test -s build/mutants.jsonl || mv build/mutants.part build/mutants.jsonl
	nice -n 19 $(BIN)/python tests/mutants/run.py build/mutants.jsonl build/mutants-results.jsonl

check-latest: .venv/dev     # compare the tables with the newest SDKs
	$(BIN)/python tests/latest_sdk.py

wheel:                      # run the steps of the Dockerfile in a folder: build, install, replay
	rm -rf dist build
	$(PYTHON) tests/deploy/image.py $(IMAGE)
	mkdir dist && cp $(IMAGE)/src/dist/*.whl dist
	cd dist && ../$(IMAGE)/opt/projector/bin/projector replay ../examples_ndjson

sbom: .venv/dev             # bill of materials of the image, as CycloneDX JSON
	mkdir -p dist
	$(BIN)/python deploy/sbom.py > dist/sbom.cdx.json

release-check: .venv/dev    # build all that a release has, install each in a clean folder and use it; needs node and curl
	@$(BIN)/python -m deploy.release.check $(if $(TAG),--tag $(TAG))

site: .site/ready           # the documentation as a site in build/site; any web server can serve it
	$(PYTHON) -m deploy.site.pages build/pages
	NO_MKDOCS_2_WARNING=1 .site/bin/mkdocs build --quiet --strict

lock: | $(BIN)/python       # renew the lock files
	$(BIN)/pip install --quiet uv
	$(LOCK) requirements/build.in -o requirements/build.txt
	$(LOCK) pyproject.toml --extra server --extra redis -o requirements/server.txt
	$(LOCK) pyproject.toml --all-extras --group dev -o requirements/dev.txt
	$(LOCK) requirements/clients.in -o requirements/clients.txt
	$(LOCK) requirements/site.in -o requirements/site.txt
	$(LOCK) requirements/compare.in -o requirements/compare.txt
	$(LOCK) requirements/mutants.in -o requirements/mutants.txt

clean:
	rm -rf .venv .clients .compare .mutants .site .node dist build .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache

$(BIN)/python:
	$(PYTHON) -m venv .venv

.venv/server: requirements/server.txt requirements/build.txt | $(BIN)/python
	$(BIN)/pip install --quiet --require-hashes -r requirements/build.txt -r requirements/server.txt
	$(BIN)/pip install --quiet --no-deps --no-build-isolation --editable .
	touch $@

.venv/dev: requirements/dev.txt | $(BIN)/python
	$(BIN)/pip install --quiet --require-hashes -r requirements/dev.txt
	$(BIN)/pip install --quiet --no-deps --no-build-isolation --editable .
	touch .venv/server $@

.clients/ready: requirements/clients.txt   # clients of the OpenAI API, whose versions are their own
	$(PYTHON) -m venv .clients
	.clients/bin/pip install --quiet --require-hashes -r requirements/clients.txt
	touch $@

.site/ready: requirements/site.txt   # tools of the documentation site
	$(PYTHON) -m venv .site
	.site/bin/pip install --quiet --require-hashes -r requirements/site.txt
	touch $@

.compare/ready: requirements/compare.txt   # other gateways, for their figures beside ours
	$(PYTHON) -m venv .compare
	.compare/bin/pip install --quiet --require-hashes -r requirements/compare.txt
	touch $@

.mutants/ready: requirements/mutants.txt   # cosmic-ray, which mutates the code
	$(PYTHON) -m venv .mutants
	.mutants/bin/pip install --quiet --require-hashes -r requirements/mutants.txt
	touch $@
