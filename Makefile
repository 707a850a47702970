# make demo   see mpiup run an MPI program, here and on three hosts
# make test   everything CI runs, set-up included
# make help   the other targets

# A Go toolchain that test/setup.sh had to bring.
export PATH := $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/mpiup/go/bin:$(PATH)
SHELL      := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
MAKEFLAGS  += --no-print-directory

VERSION  ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)
LDFLAGS  := -s -w -X main.version=$(VERSION)
# grpcnotrace: without grpc's pages of traces, which we do not serve (2.7 MB of binary).
GOBUILD  := CGO_ENABLED=0 go build -tags grpcnotrace -trimpath -buildvcs=false -ldflags '$(LDFLAGS)'
# Lazily: NVML is loaded at run time, and an older driver's lacks functions.
NVMLBUILD := CGO_ENABLED=1 go build -trimpath -buildvcs=false -ldflags '-s -w -extldflags=-Wl,-z,lazy'
FUZZTIME ?= 10s
# What a test may not skip, see test/need; .ci/run lists what CI has.
export MPIUP_TEST_REQUIRE ?=
# The tests of test/integration that train something.
TRAINING := Torch|PreemptedTraining|Lightning|Accelerate|DeepSpeedBare|JAX|TensorFlow|Horovod.*Bare|AsHorovodrun|MeetingPorts
export MPIUP_BIN := $(CURDIR)/bin/mpiup

.PHONY: help build nvml watch transparent static test unit integration attack kube-intel nccl frameworks likereal soak soak-jobs false-kills starved chaos blame slow false-names lint vuln generate fuzz demo pictures bench bench-looking bench-trace bench-crowd bench-peers matrix image image-check image-examples fips cluster cluster-check cluster-down chart release release-check skew arm64 nfs yama clean page-check otel-check setup setup-demo

help: ## this list
	@grep -hE '^[a-z-]+:.*##' Makefile | awk -F ':.*## ' '{ printf "make %-12s %s\n", $$1, $$2 }'

build: ## bin/mpiup and bin/mpiup-otel, static, for this machine, and where there is a C compiler bin/mpiup-nvml and bin/libmpiup-watch.so
	@test/setup.sh go
	@$(GOBUILD) -o bin/mpiup ./cmd/mpiup
	@$(GOBUILD) -o bin/mpiup-otel ./cmd/mpiup-otel
	@echo "built bin/mpiup and bin/mpiup-otel $(VERSION)"
	@if command -v gcc >/dev/null; then $(MAKE) nvml || \
	    echo "bin/mpiup-nvml could not be built; mpiup does without, docs/gpu.md"; $(MAKE) watch; fi

nvml: ## bin/mpiup-nvml, which asks NVIDIA's library for GPUs; needs a C compiler
	@test/setup.sh go
	@$(NVMLBUILD) -o bin/mpiup-nvml ./cmd/mpiup-nvml
	@echo "built bin/mpiup-nvml $(VERSION)"

watch: ## bin/libmpiup-watch.so, for mpiup run --watch-ranks; needs a C compiler
	@agent/watch/preload/build.sh gcc bin/libmpiup-watch.so
	@echo "built bin/libmpiup-watch.so"

static: ## bin/mpiup for amd64 and bin/mpiup-arm64
	@test/setup.sh go
	@GOOS=linux GOARCH=amd64 $(GOBUILD) -o bin/mpiup ./cmd/mpiup
	@GOOS=linux GOARCH=arm64 $(GOBUILD) -o bin/mpiup-arm64 ./cmd/mpiup
	@echo "built bin/mpiup and bin/mpiup-arm64 $(VERSION)"

test: setup lint unit integration ## what CI runs: set-up, lint, all tests with -race

setup:
	@test/setup.sh go test
	@test/wheels.sh
	@test/frameworks.sh jax kubeflow

unit:
	@echo "== unit tests"
	@go test -race -timeout 10m $$(go list ./... | grep -v '/test/')
	@echo "== gossip and a thousand hosts in virtual time, which the race detector does not survive (golang/go#78156), and what reports cost"
	@go test -timeout 5m ./agent/member ./launcher/reach ./launcher/report

# The tests on hosts share the machine's cores and clocks: one package at a time. They wait more than
# they compute: with two side by side two cores were a third busy. They run the built program, which
# go's test cache does not see, and neither does a race detector in the test: unit tests have it.
integration: build
	@echo "== tests on network namespaces, with real MPI programs"
	@go test -count=1 -parallel 4 -timeout 20m -p 1 ./test/...
	@echo "== tests on pods, in a module of their own"
	@cd test/kube && go test -count=1 -parallel 3 -timeout 15m .
	@echo "== operators' own controllers"
	@cd test/kube && go test -count=1 -parallel 8 -timeout 15m ./control ./kubelet
	@cd test/kube && go test -count=1 -timeout 30m ./contract

transparent: build ## programs that a watched rank (--watch-ranks) may not change, with the library, without it and under the MPI's own launcher, with MPICH 4 and 5 and Open MPI 4 and 5; CI runs a sample
	@test/wheels.sh
	@MPIUP_TRANSPARENT=all MPIUP_TEST_REQUIRE=mpich,wheels,watch,mpicc.openmpi go test -count=1 -timeout 30m -v -run '^TestTransparent$$' ./test/transparent

nccl: ## libmpiup-watch.so before NCCL itself, from PyPI (350 MB), without a GPU; not in CI
	@test/wheels.sh nccl
	@MPIUP_TEST_REQUIRE=nccl go test -count=1 -v -run '^TestRealNCCL$$' ./agent/watch

kube-intel: build ## MPI Operator's example with Intel MPI itself, from PyPI (root, 130 MB); not in CI
	@test/wheels.sh intel
	@cd test/kube && MPIUP_TEST_REQUIRE=root,netns,mpich,intel go test -count=1 -timeout 30m -v -run 'UpstreamExamplesWith|WorldSizes/^IntelMPI$$' ./contract

frameworks: setup build ## training with torch, Lightning, Accelerate, DeepSpeed, JAX, TensorFlow and Horovod over hosts; brings them once (root, minutes)
	@test/frameworks.sh
	@MPIUP_TEST_REQUIRE=root,netns,mpich,torch,newtorch,jax,tensorflow,horovod,horovod-mpich go test -count=1 -timeout 15m -v -run '$(TRAINING)' ./test/integration

soak: build ## random faults on a running job for SOAK=5m, again with SEED=n; not in CI
	@MPIUP_SOAK=$(or $(SOAK),5m) MPIUP_SOAK_SEED=$(SEED) go test -race -timeout 60m -count=1 -v -run '^TestSoak$$' ./test/chaos

soak-jobs: build ## 1,000 short jobs (JOBS) on the same agents: memory, descriptors and goroutines stay; not in CI
	@MPIUP_SOAK_JOBS=$(or $(JOBS),1000) go test -timeout 60m -count=1 -v -run '^TestSoakJobs$$' ./test/chaos

false-kills: build ## RUNS=1000 jobs under four troubles that may end none, SIDE=20 side by side, into the same results and page as make chaos; half an hour; not in CI
	@mkdir -p "$(or $(CHAOS),.cache/chaos)"
	@MPIUP_FALSE_KILLS=$(or $(RUNS),1000) MPIUP_CHAOS="$(abspath $(or $(CHAOS),.cache/chaos))" go test -timeout 12h -count=1 -parallel $(or $(SIDE),20) -v -run '^TestFalseKills$$' ./test/chaos | grep -E '^ *(jobs_test|--- FAIL|FAIL|ok|PASS$$)|jobs went on'

starved: build ## JOBS=200 jobs of ranks that poll, of each library, 20 side by side on two hosts of two cores, and 20 where the hosts have 3 % of a processor: none may end falsely; a quarter of an hour; not in CI, which runs a few (root)
	@MPIUP_STARVED=$(or $(JOBS),200) go test -timeout 60m -count=1 -v -run '^TestStarvedHosts$$' ./test/chaos

chaos: build ## each fault in each phase of a real job, and docs/chaos.md; CHAOS is a directory of results, which a later run goes on with; not in CI (root)
	@mkdir -p "$(or $(CHAOS),.cache/chaos)"
	@MPIUP_CHAOS="$(abspath $(or $(CHAOS),.cache/chaos))" go test -timeout 120m -count=1 -parallel 2 -run '^TestChaos$$' ./test/chaos || failed=1; \
	    MPIUP_CHAOS_TABLE="$(abspath $(or $(CHAOS),.cache/chaos))" go test -count=1 -run '^TestChaosTable$$' ./test/chaos; exit $${failed:-0}

blame: build ## failures and hangs made for real, TRIES=20 each with SIDE=5 side by side, and HABITS=11 of each habit of jobs that go on; then docs/blame.md. BLAME is a file of results, which a later run goes on with; no try begins after FOR=3m; ONLY='segfault|torch$$$$' (root; an hour); not in CI
	@mkdir -p .cache/blame
	@MPIUP_BLAME="$(abspath $(or $(BLAME),.cache/blame/results.tsv))" MPIUP_BLAME_TRIES=$(TRIES) MPIUP_BLAME_HABITS=$(HABITS) MPIUP_BLAME_SIDE=$(SIDE) MPIUP_BLAME_FOR=$(FOR) MPIUP_BLAME_ONLY='$(ONLY)' \
	    go test -timeout 12h -count=1 -v -run '^TestBlame$$' ./test/blame || failed=1; \
	    MPIUP_BLAME_PAGE="$(abspath $(or $(BLAME),.cache/blame/results.tsv))" go test -count=1 -run '^TestBlamePage$$' ./test/blame; exit $${failed:-0}

slow: build ## ranks made slow in seven ways, TRIES=1 each, those that docs/data/slow.tsv lacks, and the table in docs/slow.md; ONLY='SIGSTOP, MPICH'; none begins after FOR=3600 seconds (root; an hour and more); not in CI
	@MPIUP_SLOW='$(or $(ONLY),.)' MPIUP_SLOW_TRIES=$(TRIES) MPIUP_SLOW_SIDE=$(SIDE) MPIUP_SLOW_FOR=$(FOR) go test -timeout 12h -count=1 -v -run '^TestSlow$$' ./test/slow || failed=1; \
	    MPIUP_SLOW_TABLE=1 go test -count=1 -run '^TestSlowTable$$' ./test/slow; exit $${failed:-0}

false-names: build ## balanced programs until docs/data/false-names.tsv has RUNS=1000 runs, SIDE=6 side by side, none after FOR seconds: --watch-ranks may name nobody; WINDOW=1m for the real one (root; half an hour); not in CI
	@MPIUP_FALSE_NAMES=$(or $(RUNS),1000) MPIUP_SLOW_SIDE=$(SIDE) MPIUP_SLOW_FOR=$(FOR) MPIUP_FALSE_NAMES_WINDOW=$(WINDOW) go test -timeout 12h -count=1 -v -run '^TestFalseNames$$' ./test/slow

likereal: build ## each option, parameter and variable that docs/data/mpirun-*.tsv call done, with the real launchers of Open MPI 4 and 5, MPICH and Intel MPI, over one host or two; LINES='--map-by' for some; MPIUP_LIKEREAL_SEED mixes the two minutes of them that CI runs (root; fetches Intel MPI, 130 MB; some three minutes on two cores)
	@test/wheels.sh intel
	@MPIUP_LIKEREAL='$(or $(LINES),all)' MPIUP_TEST_REQUIRE=root,netns,mpich,wheels,intel,mpirun.openmpi go test -count=1 -parallel 4 -timeout 60m -run '^TestLikeTheRealRowByRow$$|^TestWhatTheRealLaunchersRead$$|^TestEachDoneRowHasALine$$' ./test/integration

lint: ## vet, staticcheck, gosec, gofmt, generated code, directions of imports
	@echo "== lint"
	@test/lint.sh

# ATTACK names the tests; the fuzzer of whole sessions is FuzzLiar.
attack: build ## every attack of docs/data/attacks.tsv: on the built binary and its parts, then FuzzLiar for FUZZTIME (root; minutes)
	@MPIUP_TEST_REQUIRE=root go test -count=1 -timeout 20m -run '$(ATTACK)' ./test/attack
	@test/attack.sh
	@go test -run '^$$' -fuzz '^FuzzLiar$$' -fuzztime $(FUZZTIME) -fuzzminimizetime 20x ./launcher/run

vuln: ## known vulnerabilities of the modules and of Go, from vuln.go.dev or a copy of it (GOVULNDB); not in CI
	@test/vuln.sh

generate: ## mpiup.pb.go from mpiup.proto (needs protoc)
	@go generate ./...

fuzz: ## every fuzz target for FUZZTIME (10s); PART=2/6 for each sixth of them, from the second
	@test/fuzz.sh $(FUZZTIME) $(PART)

demo: setup-demo build ## an MPI program here and on three hosts
	@mkdir -p bin
	@go build -o bin/demo ./test/demo
	@bin/demo -mpiup bin/mpiup -source examples/hello/hello.c

pictures: build ## README's pictures, docs/pictures: a run that hangs, start-up times, a plan (root, Debian's torch, py-spy on PATH)
	@mkdir -p bin docs/pictures
	@go build -o bin/demo ./test/demo
	@bin/demo -mpiup bin/mpiup -pictures docs/pictures
	@MPIUP_BIN=$(CURDIR)/bin/mpiup go test ./test/monitoring -run '^TestPrometheus$$' -count 1 -picture $(CURDIR)/docs/pictures/board.svg

setup-demo:
	@test/setup.sh go demo

page-check: ## a run's page in Debian's Chromium: 512 ranks, a log of 100 MB, hostile text (root the first time); not in CI
	@test/setup.sh go browser
	@MPIUP_TEST_REQUIRE=chromium go test -v -count 1 ./test/browser

otel-check: build ## a run's spans and metrics, taken by OpenTelemetry's own collector (minutes to build it the first time); not in CI
	@test/collector/check.sh

bench: build ## start-up times, output rate, memory, failures, in MINUTES=15; against peers where they are installed
	@test/bench/bench.sh

bench-looking: build ## what it costs to look at a run, all of it on and off in turn, in some 3 minutes (root)
	@work=$$(mktemp -d /var/tmp/mpiup-looking.XXXXXX) && trap 'rm -rf "$$work"' EXIT && chmod 755 "$$work" && cp bin/mpiup bin/mpiup-otel "$$work" && \
	cp bin/libmpiup-watch.so "$$work" && CGO_ENABLED=0 go build -o "$$work/bench" ./test/bench && mpicc.mpich -O2 -o "$$work/hello" examples/hello/hello.c && \
	nice -n "$${NICE:--15}" "$$work/bench" -mpiup "$$work/mpiup" -hello "$$work/hello" -only looking -rounds $(or $(ROUNDS),15)

bench-trace: build ## docs/pictures/trace.svg: who has the processors in a start and at a death; and what gRPC over TLS and fork alone take of a start (root, perf)
	@work=$$(mktemp -d /var/tmp/mpiup-trace.XXXXXX) && trap 'rm -rf "$$work"' EXIT && chmod 755 "$$work" && cp bin/mpiup "$$work" && \
	CGO_ENABLED=0 go build -o "$$work/bench" ./test/bench && mpicc.mpich -O2 -o "$$work/hello" examples/hello/hello.c && \
	"$$work/bench" -mpiup "$$work/mpiup" -hello "$$work/hello" -only trace,skeleton -rounds $(or $(ROUNDS),15) -picture docs/pictures/trace.svg

bench-crowd: build ## how long a run over 64 to 1,000 agents on this machine takes (root; gigabytes of memory, minutes); AGAINST=FILE for another mpiup in turn
	@CGO_ENABLED=0 go build -o bin/bench ./test/bench
	@bin/bench -mpiup bin/mpiup -only crowd -rounds $(or $(ROUNDS),3) -against '$(AGAINST)'

bench-peers: ## installs the peers that make bench compares with
	@test/setup.sh peers

matrix: build ## real MPI libraries and programs, and docs/matrix.md; CELL=STACK/PROGRAM for some (root; hours on two cores, ten minutes with CELL='*/[^m]*', all but mpi4py's suites)
	@test/setup.sh test image
	@mkdir -p bin
	@go build -o bin/matrix ./test/matrix
	@bin/matrix -mpiup bin/mpiup -cell '$(CELL)'

image: ## the container images, with podman or docker; TARGETS="openmpi-ubi mpich-ubi" for those on UBI
	@test/image/image.sh

image-check: ## the Containerfile's steps in a tree of Debian's (root; minutes the first time)
	@test/image/build.sh

image-examples: build ## the steps of the Dockerfiles of examples that train, in a tree of Debian's, then the training (root; after image-check)
	@test/image/examples.sh

fips: setup ## bin/mpiup-fips with Go's certified FIPS 140-3 module; unit tests and those on hosts and pods under GODEBUG=fips140=only (root; some 25 minutes on two cores; not in CI)
	@test/fips.sh

cluster: build ## a real Kubernetes of two nodes on this machine, with CoreDNS, MPI Operator, JobSet, Trainer and LeaderWorkerSet; from package registries (root, cgroup v1; 5 GB and half an hour the first time); FRAMEWORKS=1: with images that train (15 GB more, after make frameworks)
	@test/setup.sh go test image
	@test/cluster/start.sh

cluster-check: build ## the examples on what make cluster started, with a transcript; RUN=TestTrainJob for one
	@test/cluster/check.sh '$(RUN)'

cluster-down: ## ends what make cluster started
	@test/cluster/down.sh

skew: ## this version and OLD=COMMIT as launcher and agent of each other (docs/versions.md); not in CI
	@test/setup.sh go
	@test/skew.sh "$(OLD)"

arm64: ## the binary for arm64 under qemu, with Debian's MPICH and Open MPI for arm64 (root; minutes the first time); not in CI
	@test/arm64.sh

nfs: ## mpiup doctor --shared on a real NFS between two kernels of user-mode-linux (root, a minute); not in CI
	@test/nfs.sh

yama: ## mpiup stacks on a kernel with Yama's scope 1, Debian's under qemu (root, a minute); not in CI
	@test/yama.sh

chart: ## the Helm chart and the kustomize base of examples/: linted, and that both make the same; minutes the first time; not in CI
	@test/setup.sh go
	@test/release/chart.sh

release: ## VERSION=v0.1.0 into bin/release: binaries and images for amd64 and arm64, SBOMs, completions, manual pages, chart, sums; RELEASE_KEY=FILE signs (docs/release.md); root; not in CI
	@test/setup.sh go release
	@test/release/release.sh "$(VERSION)"

release-check: ## VERSION=v0.1.0 made twice, each in a copy of the commit at another path: all bytes are the same; then cosign verifies it and podman runs its images; root; not in CI
	@test/setup.sh go release
	@test/release/check.sh "$(VERSION)"

clean:
	@rm -rf bin .cache test/bench/raw
