# Targets for a newcomer: `make demo`, `make test`. What each of the others does stands beside it.
# Needs Python 3.11 or later, and a C compiler for the fast reader (without one the slow reader runs, and says so).

PYTHON ?= python3
DEMO := .venv
DEV := .work/venv
RUN := $(DEV)/bin/python
SPARK := .work/venv-spark
INTEROP := .work/venv-interop
AXE := .work/axe
VERSION = $(shell sed -n 's/^VERSION = "\([^"]*\)".*/\1/p' klogtool/cli/version.py)
PYTEST_ARGS ?=
JUDGE_ARGS ?=
MUSEUM_ARGS ?= --jobs 2
MUTANTS_ARGS ?= --jobs 2
SANITIZE_ARGS ?= --seconds 60
EXTENSION := $(wildcard klogtool/kernels/*.pyx klogtool/kernels/*.pxi klogtool/kernels/*.pxd klogtool/kernels/*.h)
# Where there is a compiler, an error of the kernels ends the build.
WITH_KERNELS := KLOGTOOL_REQUIRE_KERNELS=$(if $(shell command -v $(CC)),1)
# pip of Debian 12 warns about crcmod, which is published as source, setuptools about what is new in it: not about klogtool.
QUIETLY := PIP_USE_PEP517=1 PYTHONWARNINGS=ignore
SOURCES := $(shell find klogtool -name '*.py' -o -name '*.json' -o -name '*.css' -o -name '*.md' -o -name '*.pyx' -o -name '*.pxi' -o -name '*.h')

.DEFAULT_GOAL := help
.PHONY: help demo test test-all test-spark test-page interop judge judge-sample museum mutants build lint bench fuzz sanitize docs notebooks fixtures site dist onefile release-check nightly clean

help:  ## this list
	@grep -E '^[a-z-]+:.*##' Makefile | sed -E 's/^([a-z-]+):.*## /  make \1\t/' | expand -t 22

demo: $(DEMO)/.installed  ## install klogtool into .venv and look at a log dir that a killed broker left
	@tools/demo.sh $(DEMO)/bin

test: $(DEV)/.ready  ## before a commit: some cases of each test, chosen by a seed that is printed; about two minutes
	$(RUN) -m pytest -n 2 --dist worksteal --sample 2 $(PYTEST_ARGS)

test-all: $(DEV)/.engines  ## all tests (those that ask Kafka itself only where Java and mvn are found)
	$(RUN) -m pytest -n 3 --dist worksteal $(PYTEST_ARGS)

test-spark: $(SPARK)/.ready  ## the tests that ask Spark (installs PySpark, half a gigabyte; needs Java 17 or later)
	KLOGTOOL_NO_SKIP=1 $(SPARK)/bin/python -m pytest tests/spark $(PYTEST_ARGS)

interop: $(SPARK)/.ready $(INTEROP)/.ready $(DEV)/.ready  ## klog beside Spark's own kafka source, with a broker of ../shared (needs mvn, and Spark 4.0 as well); every start that the doctor knows; every way to rebuild lost metadata
	KLOGTOOL_NO_SKIP=1 $(SPARK)/bin/python -m pytest tests/interop -s $(PYTEST_ARGS)
	KLOGTOOL_NO_SKIP=1 KLOGTOOL_EVERY_START=1 $(RUN) -m pytest -n 2 tests/kafka/test_brokers_as_the_doctor_said.py tests/kafka/test_brokers_after_free.py
	KLOGTOOL_NO_SKIP=1 KLOGTOOL_NIGHTLY=1 KLOGTOOL_LOST_METADATA=1 $(RUN) -m pytest -n 1 tests/kafka/test_metadata_from_disks.py

judge: $(DEV)/.ready  ## hundreds of damaged log dirs: what doctor claims of them against what real brokers do (needs ../shared, Java, mvn)
	PYTHONPATH=tests $(RUN) -m judge $(JUDGE_ARGS)

# The same faults each time, so that one commit has one answer. The base states are a broker's of today, so a few cases
# differ from machine to machine: what it finds then is new, and to be mended (docs/safety.md); it does not end CI yet.
judge-sample: $(DEV)/.ready  ## some of that in a few minutes, on 4.3.1 above all; fails if more than 1 of 100 claims is false
	PYTHONPATH=tests $(RUN) -m judge --sample --seed 12 --jobs 3 --at-most 1 --crowds 1 --alone 2 --log-dirs 15 --options 1 --dir-options 1 --commands 1 --quorums 3 $(JUDGE_ARGS)

museum: $(DEV)/.ready  ## brings bugs back that were real, one after the other: the test of each has to fail (docs/museum.md)
	PYTHONPATH=tests $(RUN) -m museum $(MUSEUM_ARGS)

test-page: $(DEV)/.ready $(AXE)/.ready site  ## doctor's page and the site in a browser (needs chromium, and npm for axe-core)
	@command -v chromium >/dev/null || { echo "needs chromium: apt-get install chromium" >&2; exit 2; }
	KLOGTOOL_NO_SKIP=1 $(RUN) -m pytest -n 2 tests/browser $(PYTEST_ARGS)

build: $(DEV)/.ready  ## build the extension into this checkout (an editable install does not notice changes)

mutants: $(DEV)/.mutants  ## small changes of the rules, drawn by chance: a test has to fail at each (docs/safety.md)
	PYTHONPATH=tests $(RUN) -m mutants $(MUTANTS_ARGS)

lint: $(DEV)/.ready  ## ruff and mypy; of tests and the fuzzer, the names and arguments that they use
	$(RUN) -m ruff check .
	$(RUN) -m ruff format --check .
	$(RUN) -m mypy
	$(RUN) -m mypy --config-file tests/mypy.ini tests tools/fuzz

bench: $(DEV)/.ready  ## klogtool beside Kafka's own tool on the same files (needs Java and mvn, some GB of disk)
	$(RUN) tools/benchmarks/bench.py $(BENCH_ARGS)

fuzz: $(DEV)/.fuzz  ## every bit of small log dirs flipped, a hundred thousand damaged files, hostile stores, plans and journals, a million damaged directories
	$(RUN) tools/fuzz/flips.py
	$(RUN) tools/fuzz/dump_log.py --inputs 100000 $(FUZZ_ARGS)
	$(RUN) tools/fuzz/remote.py --inputs 20000 $(FUZZ_ARGS)
	$(RUN) tools/fuzz/read_back.py --inputs 100000 $(FUZZ_ARGS)
	$(RUN) tools/fuzz/directories.py --inputs 1000000 $(FUZZ_ARGS)

sanitize: $(DEV)/.ready  ## the extension under ASan and UBSan, a minute of damaged inputs
	tools/fuzz/sanitize.sh $(RUN) $(SANITIZE_ARGS)

docs: $(DEV)/.ready  ## write the tables and pictures of docs/ anew from the code
	$(RUN) tools/make_docs.py
	$(RUN) tools/draw_house.py
	PYTHONPATH=tests $(RUN) -m museum --page
	$(RUN) tools/site/screens.py

notebooks: $(DEV)/.engines  ## run the notebooks of docs/, and keep their outputs
	$(RUN) tools/site/notebook.py

fixtures: $(DEV)/.ready  ## choose the fixtures anew out of the corpora that may lie beside the project
	$(RUN) tools/make_fixtures.py $(or $(CORPUS),../shared/corpus)

site: $(DEV)/.site  ## docs/ as a site in .work/site/html, with a page for each command; it fetches nothing
	$(RUN) tools/site/build.py

dist:  ## the source archive and wheels for Linux, glibc and musl, x86_64 and aarch64, into dist/ (compiled by ziglang)
	tools/make_dist.sh dist

onefile: dist  ## klogtool with a Python and a libc of its own in one file for each machine, into dist/ (needs Debian 12)
	for machine in $(or $(MACHINES),x86_64 aarch64); do $(PYTHON) tools/onefile/build.py dist/klogtool-$(VERSION)-cp311-abi3-manylinux_2_17_$$machine.whl || exit; done

release-check: onefile $(DEV)/.ready  ## all that a release needs: the wheels, and the one file where there is nothing (needs root, Debian 12)
	.ci/dist dist
	tools/onefile/release_check.sh dist $(DEV)/bin/klogtool

nightly:  ## brokers of other releases, packaging, other compilers, sanitizers, fuzzing: what takes too long for each change (needs root, Debian 12)
	.ci/nightly

clean:  ## forget what was built and installed here
	rm -rf $(DEMO) .work build dist share *.egg-info klogtool/kernels/*.so klogtool/kernels/_native.c

$(DEMO)/.installed: pyproject.toml $(SOURCES)
	$(call new_venv,$(DEMO))
	@echo "installing klogtool into $(DEMO) (builds the extension: about 20 seconds)"
	@$(QUIETLY) $(DEMO)/bin/python -m pip install --quiet --disable-pip-version-check .
	@touch $@

# pip 25.1 is the first to know dependency groups.
$(DEV)/.ready: pyproject.toml $(EXTENSION)
	$(call new_venv,$(DEV))
	@$(RUN) -m pip install --quiet --disable-pip-version-check --upgrade 'pip>=25.1'
	@$(QUIETLY) $(WITH_KERNELS) $(RUN) -m pip install --quiet --group dev --editable '.[arrow,values]'
	@touch $@

$(SPARK)/.ready: pyproject.toml $(EXTENSION)
	$(call new_venv,$(SPARK))
	@$(SPARK)/bin/python -m pip install --quiet --disable-pip-version-check --upgrade 'pip>=25.1'
	@$(QUIETLY) $(WITH_KERNELS) $(SPARK)/bin/python -m pip install --quiet --group spark --editable '.[spark,values]'
	@touch $@

# Spark 4.0 is the last that its kafka source was published for, and cannot load klog: it has an environment of its own.
$(INTEROP)/.ready: tests/interop/pom.xml
	$(call new_venv,$(INTEROP))
	@$(INTEROP)/bin/python -m pip install --quiet --disable-pip-version-check pyspark==4.0.0
	@mvn -q -B -f tests/interop/pom.xml dependency:copy-dependencies -DexcludeTransitive=true \
		-DoutputDirectory=$(CURDIR)/$(INTEROP)/jars
	@touch $@

$(AXE)/.ready: tests/browser/package.json
	@mkdir -p $(AXE)
	@cp $< $(AXE)/
	@npm install --prefix $(AXE) --silent --no-audit --no-fund --ignore-scripts
	@touch $@

$(DEV)/.site: $(DEV)/.ready
	@$(RUN) -m pip install --quiet --disable-pip-version-check --group site
	@touch $@

# DuckDB, Polars and DataFusion, which read `klogtool.scan`, and what runs notebooks: 200 MB that only their tests need.
$(DEV)/.engines: $(DEV)/.ready
	@$(RUN) -m pip install --quiet --disable-pip-version-check --group engines
	@touch $@

# Where there is no atheris for this Python, tools/fuzz/directories.py says so and goes on without it.
$(DEV)/.fuzz: $(DEV)/.ready
	@$(RUN) -m pip install --quiet --disable-pip-version-check --only-binary :all: --group fuzz
	@touch $@

$(DEV)/.mutants: $(DEV)/.ready
	@$(RUN) -m pip install --quiet --disable-pip-version-check --group mutants
	@touch $@

define new_venv
@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "$(PYTHON) is older than 3.11: make PYTHON=..." >&2; exit 2; }
@test -x $(1)/bin/python || $(PYTHON) -m venv $(1)
endef
