# Everything a developer or a newcomer types. Meson does the building: see meson.build.

MESON = meson
WERROR ?=
MESON_FLAGS = $(if $(WERROR),--werror)
SANITIZE = -Db_sanitize=address,undefined -Db_lundef=false
SOURCES = $(shell find include examples src bench tools tests -name '*.[ch]' -not -path '*/generated/*')

.PHONY: test-kernels test-slow arm64-program asan asan-tests attack cycles cycles-builds deps dist hostile tsan test-arm64 test-on-arm64 cycles-arm64 test-dist all arm64 demo test matrix soak fuzz check check-docs check-format accuracy bench install clean

all: build/build.ninja
	@ninja -C build
	@echo "build/gospect is built. Next: sudo make install, then gospect doctor"

build/build.ninja:
	@scripts/install-deps build
	@$(MESON) setup build $(MESON_FLAGS)

# With AddressSanitizer and UBSan. tests/run builds its unit tests beside the end-to-end tests: asan-tests.
asan: build-asan/build.ninja
	@ninja -C build-asan

asan-tests: build-asan/build.ninja
	@ninja -C build-asan meson-test-prereq

build-asan/build.ninja:
	@scripts/install-deps build
	@$(MESON) setup build-asan $(MESON_FLAGS) $(SANITIZE) -Doptimization=g -Ddebug=false -Dc_args=-g1

build-tsan/build.ninja:
	@scripts/install-deps build
	@$(MESON) setup build-tsan $(MESON_FLAGS) -Db_sanitize=thread -Db_lundef=false

build-check/build.ninja:
	@scripts/install-deps build
	@$(MESON) setup build-check --werror

# What building and testing need. `make` installs what building needs when it is missing.
deps:
	@scripts/install-deps build test

# What is released, for amd64 and arm64, in dist/: docs/internals/release.md.
dist:
	@scripts/install-deps build dist
	@scripts/make-dist

# Installs, unpacks and runs all of it, in empty folders and fresh systems; builds it a second time: some 10 minutes.
test-dist: all dist
	@scripts/install-deps build test test-dist
	@tests/run --slow tests/dist

# Cross-builds for arm64; tests/arm64/run runs it.
arm64: build-arm64/build.ninja
	@ninja -C build-arm64

# Without the unit tests.
arm64-program: build-arm64/build.ninja
	@ninja -C build-arm64 gospect

build-arm64/build.ninja:
	@scripts/install-deps build arm64
	@root=$$(scripts/arm64-packages libraries) && $(MESON) setup build-arm64 $(MESON_FLAGS) -Ddebug=false \
		--cross-file "$$root/../constants.ini" --cross-file scripts/cross/arm64.ini

build-fuzz/build.ninja:
	@scripts/install-deps build fuzz
	@CC=clang $(MESON) setup build-fuzz $(MESON_FLAGS) $(SANITIZE) -Dfuzz=true

demo: all
	@examples/demo.sh

# Its last line is "N passed, N failed, N skipped". ARM64=1 builds gospect for arm64, too, and runs the
# tests of it that do not take long; test-arm64 has all of them.
ARM64 ?=
test:
	@scripts/install-deps build test
	@$(MAKE) --no-print-directory all
	@tests/run $(if $(ARM64),--arm64)

# Every end-to-end test, those that take minutes too: hours.
test-slow: all asan
	@tests/run --slow

# Hostile targets, files and users: every test of tests/attack, those that take minutes too.
attack: all asan
	@tests/run --slow tests/attack

# A program that lies about everything, read by every verb under ASan for HOSTILE_SECONDS (an hour).
hostile: all asan
	@HOSTILE_SECONDS=$${HOSTILE_SECONDS:-3600} tests/run --slow tests/attack/test_hostile.py

# What is tested on arm64, and on a kernel with Yama, in an emulated machine: some 20 minutes.
test-arm64: all arm64
	@ARM64_ALL=1 tests/run --slow -k 'arm64 or permissions'
	@tests/matrix/run --arm64

# The tests of amd64 themselves, in an emulated arm64 machine that has Python. Attaching alone takes half an hour.
ON_ARM64 = not many_times and not settings and not from_every_build and not every_version_and_build
test-on-arm64: all arm64
	@tests/arm64/pytest e2e/test_trace_attach.py e2e/test_exact.py e2e/test_allocations.py -k '$(ON_ARM64)'

# Attaching and detaching 2,000 times there, on the newest Go: 76 minutes.
cycles-arm64: all arm64
	@TRACE_CYCLES=$${TRACE_CYCLES:-2000} tests/arm64/pytest e2e/test_trace_attach.py -k 'attaching_and_detaching_many_times and 1.27'

# Every verb on kernels from 4.18 on, for amd64 and arm64, in emulated machines; writes docs/reference/kernels.md: 47 minutes.
test-kernels: all arm64
	@scripts/install-deps build test arm64 kernels
	@tests/kernels/run --write
	@tests/matrix/run --kernels --write 1.17 1.22 1.27

# Every Go version, built in every way; writes docs/reference/versions.md. The first time it takes half an hour.
matrix: all
	@tools/gen-layout --check
	@tests/matrix/run --write

# What two threads share, under ThreadSanitizer: then whole traces.
tsan: build-tsan/build.ninja
	@ninja -C build-tsan src/collect/test_backlog src/collect/test_collector src/lib/two_targets src/collect/trace_probe
	@$(MESON) test -C build-tsan --no-rebuild --print-errorlogs backlog collector
	@tests/run -k two_targets_in_two_threads
	@tests/run --slow -k whole_traces_have_no_race

# Attaching and detaching 2,000 times, on the oldest, a middle and the newest Go, and killed at each fault point.
cycles: all
	@TRACE_CYCLES=$${TRACE_CYCLES:-2000} tests/run --slow -k 'attaching_and_detaching_many_times or killed_anywhere'

# The same from builds with the race detector and without optimisation, and with settings of the runtime: hours.
cycles-builds: all
	@TRACE_CYCLES=$${TRACE_CYCLES:-2000} tests/run --slow -k 'from_every_build_many_times or settings'

# All fuzz targets at once, each for FUZZ_SECONDS (an hour), then one table.
fuzz: build-fuzz/build.ninja
	@ninja -C build-fuzz
	@tests/fuzz/run

# Torn reads: 100 million stacks of every Go version; writes docs/internals/torn-reads.md. 45 minutes. Then the
# memory of a trace of 10 million goroutines, none of which has a text of another's, and of an hour of serve.
soak: all
	@tests/soak/run --write
	@tests/soak/trace
	@tests/soak/serve

# A minute each of a quiet, a busy and a drifting machine against the program's own account and trace.
accuracy: all
	@tests/accuracy/run

# What to run before each commit; takes less than a minute.
check: check-format build-check/build.ninja
	@ninja -C build-check
	@$(MESON) test -C build-check --no-rebuild --print-errorlogs --suite unit

check-format:
	@command -v clang-format >/dev/null || scripts/install-deps test
	@echo $(SOURCES) | xargs -n 50 -P $$(nproc) clang-format --dry-run --Werror

# The documents against the program: links, options, figures, messages, and every command as printed.
check-docs: all
	@scripts/install-deps build test
	@scripts/check-docs

bench: all
	@bench/run

install: all
	@$(MESON) install -C build

clean:
	rm -rf build build-arm64 build-asan build-check build-dist build-fuzz dist
