# The front door. meson does the work; each target first sees to the Debian packages it needs.
#
#   make run                    build, then a short tour of a hand (CMD='...' runs that command instead)
#   make serve                  build, then the sandbox service with its dashboard on 127.0.0.1:7171
#   make test                   unit and whole-program tests under sanitizers; test-all adds the slow ones
#   make test-cluster           the tests in a real Kubernetes cluster, whose programs it builds first: a quarter of an hour, once
#   make check                  what the changed files concern, in a minute (REV=... since when); says what it left out
#   make hunt TEST=... TIMES=   one test a hundred times beside a load, to find out why it fails now and then
#   make lint fuzz bench        checks, fuzzing (FUZZ_SECONDS=60 for each target), measurements
#   make install                into DESTDIR/PREFIX
#   make arm64 test-arm64       the programs for arm64, built on another machine, and their unit tests in qemu

PREFIX ?= /usr/local
DESTDIR ?=
FUZZ_SECONDS ?= 60
# as written, whatever dollars it holds
override export CMD := $(value CMD)

.PHONY: arm64 test-arm64 build run serve test test-all test-cluster check hunt bench lint fuzz install clean format

build:
	@tools/deps build
	@tools/build release

run: build
	@build/tendon run $${CMD:+-- "$$CMD"}

serve: build
	@exec build/tendon serve

test:
	@tools/deps build test
	@tools/test

check:
	@tools/deps build test
	@tools/check $(REV)

hunt:
	@tools/deps build test
	@tools/hunt "$(TEST)" $(TIMES)

test-all:
	@tools/deps build test
	@for tool in csi kwok agent-sandbox node network; do tools/$$tool --build >/dev/null; done || true # as below
	@tools/cluster --build 1.20 >/dev/null || true
	@tools/test --all

test-cluster:
	@tools/deps build test
	@tools/cluster --build && tools/helm --build || true # the tests are skipped then, and say why
	@tools/test --folder kubernetes

arm64:
	@tools/deps build arm64
	@tools/arm64

test-arm64:
	@tools/deps build arm64
	@tools/arm64 --test

bench:
	@tools/deps build bench
	@tools/build release
	@meson setup --reconfigure build >build/setup.log # finds what was installed since
	@bench/run

lint:
	@tools/deps build lint
	@tools/lint

fuzz:
	@tools/deps build fuzz
	@tools/fuzz "$(FUZZ_SECONDS)"

install: build
	@meson setup --reconfigure build -Dprefix="$(PREFIX)" >build/setup.log
	@DESTDIR="$(DESTDIR)" meson install -C build --no-rebuild

format:
	@tools/deps lint
	@tools/sources c h | xargs clang-format -i

clean:
	rm -rf build build-asan build-tsan build-clang build-fuzz build-test build-arm64
