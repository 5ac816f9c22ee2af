# The one door to everything that a developer or CI runs. The work is done in scripts/.

PYTHON := .venv/bin/python
SECONDS ?= 60
ROUNDS_OF_SOAK = $(if $(filter cluster,$(NAME)),200,$(if $(filter log,$(NAME)),1000,2000))
ROUNDS ?= $(if $(filter test-power,$(MAKECMDGOALS)),20,$(ROUNDS_OF_SOAK))
SEEDS ?= 10000
WHOLE ?= 2000
NAME ?=

.DEFAULT_GOAL := help
.PHONY: help setup demo demo-pool demo-durable test test-foreign check bench fuzz soak sim sim-node faults sanitize docs format clean spark demo-spark \
	test-spark test-spark-pool test-spark-lines test-spark-suites test-hdf5 test-power test-rdma

help: ## list the targets
	@sed -n 's/^\([a-z0-9-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | \
		awk -F '\t' '{ printf "  make %-17s %s\n", $$1, $$2 }'

setup: ## install what the machine lacks, and the package into .venv
	@scripts/setup.sh

demo: setup ## 10 million rows, 4 to 16 processes, one copy in memory, beside six other ways
	@.venv/bin/plasmon run-demo --picture target/demo.png

demo-pool: setup ## [ARGUMENTS="--json"]: three nodes, one table, one node is killed; wants root, for etcd
	@scripts/setup.sh etcd
	@$(PYTHON) -m scripts.demo_pool $(ARGUMENTS)

demo-durable: setup ## [ARGUMENTS="--json"]: three nodes are switched off and on, and every durable object is there; wants etcd
	@scripts/setup.sh etcd
	@$(PYTHON) -m scripts.demo_durable $(ARGUMENTS)

test: setup check ## every test, after the checks; ends with the counts
	@scripts/setup.sh languages
	@scripts/setup.sh etcd
	@scripts/setup.sh fabric
	@scripts/spark.sh environments
	@$(PYTHON) scripts/test.py rest

spark: ## [PREFIX=env]: the jar for Spark's shuffle, into an environment; docs/guides/spark.md
	@scripts/setup.sh languages
	@scripts/spark.sh jar $(PREFIX)

demo-spark: setup ## [ARGUMENTS="--quick"]: blocks, a spill, kills: with Spark's own shuffle manager and with ours
	@scripts/setup.sh languages
	@scripts/setup.sh etcd
	@scripts/spark.sh demo $(ARGUMENTS)

test-spark: ## everything about Spark's shuffle, with Spark 3.5 and 4.3 (half an hour)
	@scripts/setup.sh languages
	@scripts/spark.sh test --ignore spark/tests/pool

test-spark-pool: ## the shuffle on three machines, of which some die; a table. As root (a quarter of an hour)
	@scripts/setup.sh languages
	@scripts/setup.sh etcd
	@scripts/spark.sh pool

test-spark-lines: ## a few jobs and faults with every line of Spark in between
	@scripts/setup.sh languages
	@scripts/spark.sh lines

test-spark-suites: ## [NAME=ShuffleSuite]: Spark's own tests with both managers (over half an hour)
	@scripts/setup.sh languages
	@scripts/spark.sh suites $(NAME)

test-hdf5: ## the HDF5 connector: our tests, then HDF5's and h5py's own beside HDF5 alone
	@scripts/setup.sh
	@scripts/hdf5_library.sh serial
	@scripts/hdf5_library.sh parallel
	@$(PYTHON) scripts/hdf5_tests.py all

test-power: ## [ROUNDS=20] [SEED=1] [DEVICE=disk|nvdimm]: the power of virtual machines is cut under load
	@scripts/setup.sh power
	@scripts/power.sh --rounds $(ROUNDS) $(if $(SEED),--seed $(SEED)) \
		$(if $(DEVICE),--device $(DEVICE))

test-rdma: ## pool transfers over verbs, in a virtual machine with a software RDMA card (minutes)
	@scripts/setup.sh rdma
	@scripts/rdma.sh

test-foreign: ## [NAME=pandas]: other projects' own tests of pickling and parallel work, over ours
	@scripts/setup.sh
	@$(PYTHON) scripts/foreign_tests.py $(NAME)

check: ## format, lints, types, the repository's rules, licences, quick tests
	@scripts/setup.sh environment
	@$(PYTHON) scripts/test.py check

bench: setup ## NAME=store: measure beside rivals and the limits of the machine
	@$(if $(filter pool,$(NAME)),scripts/setup.sh etcd && scripts/setup.sh pool-rivals)
	@$(if $(filter durable,$(NAME)),scripts/setup.sh durable-rivals)
	@$(PYTHON) -m bench $(or $(NAME),store)

fuzz: ## SECONDS=60 [TARGET=frame]: throw bytes at everything that reads foreign ones
	@scripts/setup.sh machine
	@scripts/setup.sh etcd
	@python3 scripts/fuzz.py --seconds $(SECONDS) $(if $(TARGET),--target $(TARGET))

soak: ## NAME=kill [ROUNDS=2000], log [ROUNDS=1000], cluster [ROUNDS=200] [ONLY=power], objects|tables [SECONDS=60]; [SEED=1]
	@scripts/setup.sh machine
	@$(if $(filter cluster,$(NAME)),scripts/setup.sh etcd)
	@scripts/soak.sh $(or $(NAME),kill) $(if $(filter objects tables,$(NAME)),--seconds $(SECONDS),\
		--rounds $(ROUNDS)) $(if $(ONLY),--only "$(ONLY)") $(if $(SEED),--seed $(SEED))

sim-node: ## SEEDS=10000 [SEED=n] [SAME=300] [MUTATIONS=300] [MUTATION=name]: the node from a seed
	@scripts/setup.sh machine
	@scripts/sim.sh $(if $(SEED),--seed $(SEED),--seeds $(SEEDS)) \
		$(if $(MUTATION),--mutation $(MUTATION)) $(if $(MUTATIONS),--mutations $(MUTATIONS)) \
		$(if $(SAME),--same $(SAME))

sim: ## SEEDS=10000 WHOLE=2000 [PART=nodes|whole] [FIRST=n] [SEED=n] [MUTATIONS=all]: a pool from a seed
	@scripts/setup.sh machine
	@SEEDS=$(SEEDS) WHOLE=$(WHOLE) $(if $(PART),PART=$(PART)) FIRST=$(FIRST) SEED=$(SEED) \
		MUTATIONS=$(MUTATIONS) EVENTS=$(EVENTS) scripts/sim-pool.sh

faults: ## [FAULTS="--scene serve --kind open"]: each system call fails, with each error, early and late
	@scripts/setup.sh machine
	@cargo run --quiet --locked -p plasmon-faults -- $(FAULTS)

sanitize: ## NAME=thread|address: tests under ThreadSanitizer, the C programs under AddressSanitizer
	@scripts/setup.sh machine
	@scripts/sanitize.sh $(or $(NAME),thread)

docs: ## write the generated pages
	@cargo xtask docs

format: ## format every language
	@scripts/setup.sh environment
	@cargo fmt --all && cargo fmt --manifest-path fuzz/Cargo.toml
	@.venv/bin/ruff check --quiet --fix . && .venv/bin/ruff format --quiet .

clean: ## remove everything that can be made again
	@rm -rf target fuzz/target fuzz/corpus .venv .venvs build dist .mypy_cache .ruff_cache \
		.pytest_cache readers/java/target spark/target readers/javascript/node_modules
