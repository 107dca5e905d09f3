# A thin front: everything real is in CMake, tools/ and tests/. `make help` lists the targets.
JOBS ?= $(shell nproc)
PREFIX ?= /usr/local
WORKERS ?= 2
# A release of PyTorch on PyPI, such as 2.15, in place of Debian's libtorch; its builds lie beside the others.
TORCH ?=
# What of the tests libtorch takes part in.
MODULES ?= model exported train_torch
suffix := $(if $(TORCH),-torch-$(TORCH))
TAXON := build/release$(suffix)/bin/taxon
# $(call configure,PRESET)
configure = cmake --preset $(1) -B build/$(1)$(suffix) -DTAXON_TORCH=$(TORCH)

# $(call run_tests,FOLDER,MODULES)
run_tests = ctest --test-dir build/$(1) -j $(JOBS) --output-on-failure --no-tests=error -L '^($(subst $(eval ) ,|,$(strip $(2))))$$'

.DEFAULT_GOAL := build
.PHONY: help deps build quickstart test test-torch install sanitized asan tsan clang nightly format lint fresh clean

help: ## list the targets
	@sed -n 's/^\([a-z%-]*\):.* ## /\1\t/p' $(firstword $(MAKEFILE_LIST)) | expand -t 12

deps: ## install the Debian packages that are missing (root or sudo; asks nothing)
	@tools/install-packages
ifneq ($(TORCH),)
	@python3 -m pip --version >/dev/null 2>&1 || tools/install-packages python3-pip
	@tools/fetch-torch $(TORCH) build/torch >/dev/null
endif

build: deps ## Release build; the program is build/release/bin/taxon (TORCH=2.15: with that release of PyPI)
	@$(call configure,release) -DTAXON_WITH_TESTS=OFF
	@cmake --build build/release$(suffix) -j $(JOBS)

quickstart: build ## build, then train a CNN on Fashion-MNIST with 2 workers
	$(TAXON) train recipes/fashion-mnist-cnn.yaml --workers $(WORKERS) --out runs/quickstart --overwrite

test: deps ## build and run every test
	@$(call configure,dev)
	@cmake --build build/dev$(suffix) -j $(JOBS)
	@ctest --test-dir build/dev$(suffix) -j $(JOBS) --output-on-failure

test-torch: deps ## build and run the tests that libtorch takes part in, nothing else (TORCH=2.15: with that release of PyPI; MODULES, WITHOUT=regex: these, but those)
	@$(call configure,dev)
	@cmake --build build/dev$(suffix) -j $(JOBS) --target taxon $(addsuffix _test,$(MODULES))
	@$(call run_tests,dev$(suffix),$(MODULES)) -E '$(or $(WITHOUT),^$$)'

install: build ## install program, libraries, headers and CMake packages under PREFIX=/usr/local
	@cmake --install build/release$(suffix) --prefix $(PREFIX)

# What the gate has time for: decoders of what others sent under one sanitizer, what has threads under the other.
ASAN_SHARE := net control codec
TSAN_SHARE := task tensor net control
# $(call sanitize,PRESET,MODULES)
define sanitize
	@cmake --preset $(1)
	@cmake --build build/$(1) -j $(JOBS) --target $(addsuffix _test,$(2))
	@$(call run_tests,$(1),$(2))
endef

sanitized: deps ## the gate's share of asan and tsan
	$(call sanitize,asan-light,$(ASAN_SHARE))
	$(call sanitize,tsan,$(TSAN_SHARE))

asan: deps ## every test under AddressSanitizer and UBSan
	@$(call configure,asan)
	@cmake --build build/asan$(suffix) -j $(JOBS)
	@ctest --test-dir build/asan$(suffix) -j $(JOBS) --output-on-failure

tsan: deps ## the tests of the modules without libtorch under ThreadSanitizer
	@cmake --preset tsan
	@cmake --build build/tsan -j $(JOBS)
	@ctest --test-dir build/tsan -j $(JOBS) --output-on-failure

clang: deps ## the tests of the modules without libtorch, built by a second compiler
	@command -v clang++-16 >/dev/null || tools/install-packages clang-16
	@cmake --preset clang
	@cmake --build build/clang -j $(JOBS)
	@ctest --test-dir build/clang -j $(JOBS) --output-on-failure

nightly: ## what is too long for .ci/run: sanitizers, faults from 100,000 seeds, the suite again and again
	@tools/nightly

format: ## rewrite the sources in the house's format
	@tools/check-format --fix

lint: deps ## format, clang-tidy, and whether each header compiles alone
	@tools/check-format
	@tools/check-headers
	@tools/check-tidy

fresh: ## show both commands on an empty Debian 12 (root; debootstrap)
	@tools/fresh-machine

bench-%: ## whether a benchmark runs and is right (bench-all: each of them); its times say nothing
	@bench/run $* --smoke

clean: ## remove everything that was built
	@rm -rf build
