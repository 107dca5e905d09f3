# A thin front: everything real is in CMake, tools/ and tests/. `make help` lists the targets.
JOBS ?= $(shell nproc)
PREFIX ?= /usr/local
WORKERS ?= 2
TAXON := build/release/bin/taxon

# One compiler cache serves clones in other folders too, where ccache is installed.
export CCACHE_BASEDIR := $(CURDIR)
export CCACHE_NOHASHDIR := 1

.DEFAULT_GOAL := build
.PHONY: help deps build quickstart test install asan tsan format lint fresh clean

help: ## list the targets
	@sed -n 's/^\([a-z]*\):.* ## /\1\t/p' $(firstword $(MAKEFILE_LIST)) | expand -t 12

deps: ## install the Debian packages that are missing (root or sudo; asks nothing)
	@tools/install-packages

build: deps ## Release build; the program is build/release/bin/taxon
	@cmake --preset release -DTAXON_WITH_TESTS=OFF
	@cmake --build build/release -j $(JOBS)

quickstart: build ## build, then train a CNN on Fashion-MNIST with 2 workers
	$(TAXON) train recipes/fashion-mnist-cnn.yaml --workers $(WORKERS) --out runs/quickstart --overwrite

test: deps ## build and run every test
	@cmake --preset dev
	@cmake --build build/dev -j $(JOBS)
	@# A second chance, printed as such, for tests of real processes with deadlines on a crowded machine.
	@ctest --test-dir build/dev -j $(JOBS) --output-on-failure --repeat until-pass:2

install: build ## install program, libraries, headers and CMake packages under PREFIX=/usr/local
	@cmake --install build/release --prefix $(PREFIX)

asan: deps ## every test under AddressSanitizer and UBSan
	@cmake --preset asan
	@cmake --build build/asan -j $(JOBS)
	@ctest --test-dir build/asan -j $(JOBS) --output-on-failure

tsan: deps ## the tests of the modules without libtorch under ThreadSanitizer
	@cmake --preset tsan
	@cmake --build build/tsan -j $(JOBS)
	@ctest --test-dir build/tsan -j $(JOBS) --output-on-failure

format: ## rewrite the sources in the house's format
	@tools/check-format --fix

lint: deps ## format, clang-tidy, and whether each header compiles alone
	@tools/check-format
	@tools/check-headers
	@tools/check-tidy

fresh: ## show both commands on an empty Debian 12 (root; debootstrap)
	@tools/fresh-machine

clean: ## remove everything that was built
	@rm -rf build
