# One command for each habit. Every target installs what it needs first; `make` alone lists them.

SHELL := /bin/bash
python := .venv/bin/python
.DEFAULT_GOAL := help
# Demo, tests and drills start programs of ours by the hundred: none of them compiles it all anew.
unexport PYTHONDONTWRITEBYTECODE
.PHONY: help demo test test-all test-long check format bench soak faults examine test-rabbitmq4
.PHONY: plugin release release-check screenshots lock clean

help: ## say what there is
	@sed -n 's/^\([a-z0-9-]*\):.* ## /  make \1\t/p' $(MAKEFILE_LIST) | expand -t 24

demo: ## trace a small order pipeline on a private broker and restore a chain from it
	@tools/install runtime
	@exec .venv/bin/rabbitmq-itc demo

# Files of tests at a time, each process with servers of its own: half of the time one waits, and
# more where no browser or Spark is at work. A broker that is given has two tests at work beside each
# other only where somebody says so.
at_once = $(python) -m pytest -n $(or $(AT_ONCE),$(if $(AMQP_URL),0,$(1))) --dist loadfile --no-loadscope-reorder

test: ## check, and the tests that take minutes: all but what a server, a browser or Spark is for
	@tools/install test
	$(call at_once,3) --part quick $(PYTEST_FLAGS)

# What differs between versions of RabbitMQ, for 4.0 and for the one that compose.yaml has.
of_versions = amqp10_shovel broker_plugin cases cluster connections failures firehose lost model_broker oauth redelivered settlements streams trace_queue
on_rabbitmq4 = tools/rabbitmq4 $(call at_once,2) $(PYTEST_FLAGS) -m "not long" $(of_versions:%=tests/integration/test_%.py)

# Which of the long tests are in the sample, the commit decides: SEED=… for another.
test-all: test ## that, and the rest: other servers, clients, documents, and a sample of the long ones
	$(call at_once,2) --part rest --long sample $(if $(SEED),--sample-seed $(SEED)) $(PYTEST_FLAGS)
	RABBITMQ4_SUITE=trixie $(on_rabbitmq4) || [ $$? = 69 ] # there can be none, as its last line says
	$(on_rabbitmq4) || [ $$? = 69 ]

test-long: ## all of the long tests, and five times the random examples
	@tools/install test
	HYPOTHESIS_PROFILE=thorough $(call at_once,2) --long all $(PYTEST_FLAGS) tests/unit tests/properties
	$(call at_once,2) --long only $(PYTEST_FLAGS)

check: ## lint, format and types; the dashboard's scripts, container files and manifests
	@tools/install test
	.venv/bin/ruff check
	.venv/bin/ruff format --check
	.venv/bin/mypy
	.venv/bin/oxlint web
	.venv/bin/hadolint Dockerfile deploy/plugin/Dockerfile
	.venv/bin/check-jsonschema --builtin-schema vendor.compose-spec compose.yaml deploy/plugin/compose.yaml
	.venv/bin/kubernetes-validate --strict --quiet deploy/kubernetes/*/rabbitmq-itc.yaml

format: ## put the code into the shape that check wants
	@tools/install test
	.venv/bin/ruff format
	.venv/bin/ruff check --fix

bench: ## measure: the figures in docs/measurements.md come from here
	@tools/install test
	$(python) -m bench

soak: ## what takes long: damaged messages, clocks against clients' own, ten minutes of traffic
	@tools/install test
	$(python) -m drills.fuzz
	$(python) -m drills.fuzz_traces sqlite
	$(python) -m drills.fuzz_traces postgresql
	$(python) -m drills.sanitize 1000000
	$(python) -m drills.acts --plain
	$(python) -m drills.acts
	$(python) -m drills.soak

faults: ## every fault that may cost the record something, on both stores; FAULTS='--only ttl' for some
	@tools/install test
	$(python) -m drills.faults $(FAULTS)

examine: ## thousands of requests from the OpenAPI document to a whole service
	@tools/install test
	SCHEMATHESIS_EXAMPLES=$${SCHEMATHESIS_EXAMPLES:-120} $(python) -m pytest -s tests/docs/test_examined.py

test-rabbitmq4: ## the integration tests against a newer RabbitMQ
	@tools/install test
	tools/rabbitmq4 $(python) -m pytest tests/integration

plugin: ## build the optional broker plugin; the last line is its file
	@broker_plugin/build

# PYTHONS=… names the programs of further Pythons to build wheels for.
release: ## build every artifact of the last commit into dist/; nothing is uploaded
	@tools/install test
	$(python) -m tools.release

release-check: release ## try the artifacts of dist/: installed, rendered, built anew and compared
	$(python) -m pytest -n 0 $(PYTEST_FLAGS) tests/release

screenshots: ## take the documents' pictures of the dashboard anew, from a demo of its own
	@tools/install test
	$(python) -m tests.web.screenshots

lock: ## write the hashes of all packages anew, after a change of versions
	@tools/lock

clean: ## remove what was built, installed and recorded here
	@tools/clean
