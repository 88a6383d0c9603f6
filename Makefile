# Run make without a target for what there is.
SHELL := /bin/bash
.DEFAULT_GOAL := help
.PHONY: help build elsewhere test fuzz demo demo-wordcount demo-training lint fmt verify docs man install bench bench-baseline bench-scenarios deps clean seeds soak

# A static binary: it is put into containers as it is, whatever they hold.
STATIC := CGO_ENABLED=0 go build -trimpath
# The linter is built once, whatever the code is built with.
LINT   := $$(CGO_ENABLED=1 go tool -n -modfile=tools/go.mod golangci-lint)

# What to test, and how: make test PKG=./scheduler/... ARGS='-run Gang -v'
PKG  ?= ./...
ARGS ?=
# What drives the demo, and how: it is given the binary.
DEMO ?= bin/demo -escher bin/escher

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

build: ## bin/escher and bin/escher-bench, static
	$(STATIC) -o bin/ ./cmd/escher ./e2e/bench/escher-bench

elsewhere: ## the command line for macOS, which reaches clusters by a server; nothing is kept
	GOOS=darwin CGO_ENABLED=0 go build -o /dev/null ./cmd/escher

deps: ## install what tests and demo need (containerd, runc, gcc), or say what
	@deploy/deps.sh run test

# Packages are tested three at a time: most wait for a disk or a clock, some keep two
# cores busy alone. Those that wait longest come first. Two packages run without the race
# detector, which makes them ten times as slow: the rules about the source, and the simulation,
# which takes all its steps in one goroutine. The race detector waits a second at the end of each
# program, unless told otherwise. Memory is cheaper than collecting garbage, for the linker, too.
#
# FRESH=1 believes no earlier result about the machine: its kernel, disk, etcd and containerd. Results
# of PURE packages, which only compute, hold while nothing changes that they are built from or read.
# A package whose tests start etcd is none of them.
MODULE := github.com/escher-sched/escher
LAWS   := $(MODULE)/e2e/laws
SIM    := $(MODULE)/e2e/sim
FIRST  := $(MODULE)/e2e $(MODULE)/nodeagent/runtime/containerd
PURE    = $$(go list -f '{{.ImportPath}} {{.TestImports}} {{.XTestImports}}' ./types/... ./controlplane/... ./scheduler/... ./esl/... | grep -v etcdtest | cut -d ' ' -f 1)
MACHINE = $(FIRST) $$(go list ./... | grep -vxF -e $(LAWS) -e $(SIM) $$(printf -- '-e %s ' $(PURE)))
COUNT  := $(if $(FRESH),-count=1)
RACED  := CGO_ENABLED=1 GORACE=atexit_sleep_ms=50 GOGC=400 tools/test.sh -trimpath -race -p 3 -timeout 30m
test: ## every test with the race detector, on real etcd and containerd; needs root
	@GOAL=$@ deploy/deps.sh root run test
ifeq ($(PKG),./...)
	GOGC=400 go test -trimpath $(COUNT) $(ARGS) $(LAWS)
	GOGC=400 go test -trimpath $(ARGS) $(SIM)
	$(RACED) $(ARGS) $(PURE)
	$(RACED) $(COUNT) $(ARGS) $(MACHINE)
else
	$(RACED) $(COUNT) $(ARGS) $(PKG)
endif

# 500 seeds: without the race detector, which makes them ten times as slow and finds nothing in
# what takes its steps one by one. Three at once: most of each keeps one core busy. The
# files of agents are in memory, if there is such a directory: a disk doubles the time. The result of
# what takes its steps one by one holds until something changes; the others run each time.
MEMORY := $(firstword $(wildcard /dev/shm) /tmp)
seeds: ## 500 seeds of both simulations, the largest gang, and every document of the schema's test
	@printf '%s\n' './e2e/faults -run TestSeeds -count 1 -faults.seeds 60' './e2e/sim -run TestSeeds' \
		'./cmd/escher/internal/cli -run TestSchemaAgrees' './esl/gang -run TestGangOn512Nodes -count 1' | \
	SIM_SEEDS=440 SCHEMA_ALL=1 GOGC=400 TMPDIR=$(MEMORY) GOTMPDIR=/tmp xargs -P 3 -L 1 go test -trimpath

# How long each fuzz target runs. What fails is kept below testdata/fuzz of its package, and
# every later run of the tests begins with it.
FUZZTIME ?= 10s
fuzz: ## every fuzz target for FUZZTIME: decoders, validators, files, handlers
	@grep -rl --include='*_test.go' '^func Fuzz' . | xargs -n 1 dirname | sort -ru | GOGC=400 xargs -P 5 -n 1 tools/fuzz.sh $(FUZZTIME)

demo: ## the demo on real containers; needs root
	@GOAL=$@ deploy/deps.sh root run
	$(STATIC) -o bin/ ./cmd/escher ./examples/...
	$(DEMO)

demo-wordcount: ## MapReduce over 40 MB of English, where the data is; needs root
	@GOAL=$@ deploy/deps.sh root run
	@deploy/text.sh .cache/text
	$(STATIC) -o bin/ ./cmd/escher ./examples/...
	$(DEMO) -text .cache/text/text.txt

demo-training: ## data-parallel training in Python, preempted and killed; needs root
	@GOAL=$@ deploy/deps.sh root run image
	@deploy/debian.sh .cache/training/python.tar.gz escher.local/python:3 python3 python3-numpy
	$(STATIC) -o bin/ ./cmd/escher ./examples/...
	$(DEMO) -training .cache/training/python.tar.gz

docs: ## the site of the documents, in bin/site; builds Hugo first, which takes minutes once
	CGO_ENABLED=0 go tool -modfile=tools/hugo.mod hugo --source tools/site --destination $(CURDIR)/bin/site --noBuildLock --cleanDestinationDir --panicOnWarning

man: ## a man page for each command, in bin/man
	go test -trimpath ./cmd/escher/internal/cli -run TestManPages -man $(CURDIR)/bin/man

# Where make install puts what it installs: below DESTDIR, for packages.
PREFIX ?= /usr/local
SHARE   = $(DESTDIR)$(PREFIX)/share
install: build man ## binaries, man pages and completions, below PREFIX
	install -Dt $(DESTDIR)$(PREFIX)/bin bin/escher bin/escher-bench
	install -Dm 644 -t $(SHARE)/man/man1 bin/man/*.1
	install -d $(SHARE)/bash-completion/completions $(SHARE)/zsh/site-functions $(SHARE)/fish/vendor_completions.d
	bin/escher completion bash > $(SHARE)/bash-completion/completions/escher
	bin/escher completion zsh > $(SHARE)/zsh/site-functions/_escher
	bin/escher completion fish > $(SHARE)/fish/vendor_completions.d/escher.fish

lint: ## golangci-lint, by .golangci.yml
	$(LINT) run ./...

fmt: ## format all files
	gofmt -s -w .

verify: ## all that is checked without running anything: format, vet, lint, layers
	@bad=$$(gofmt -s -l .); if [ -n "$$bad" ]; then echo "not formatted, run make fmt:"; echo "$$bad"; exit 1; fi
	go vet ./...
	$(LINT) run ./...
	go test ./e2e/laws

# What make bench runs of the benchmarks in Go: what a task passes through on its way.
# Less often than six times, differences may be chance.
COUNT ?= 6
BENCH := go test -run '^$$' -count $(COUNT) -benchmem
define benchmarks
$(BENCH) -bench 'EncodeBinding|DecodeBinding' -benchtime 0.2s ./types && \
$(BENCH) -bench Commit -benchtime 0.2s ./controlplane/memstore && \
$(BENCH) -bench Apply -benchtime 0.3s ./controlplane/cluster && \
$(BENCH) -bench CoreBind -benchtime 1x ./scheduler
endef
LAST := docs/bench/last-release.txt

# How many seeds make soak runs of each simulation.
SEEDS ?= 5000
soak: ## many seeds of both simulations
	go test ./e2e/faults -run TestSeeds -timeout 0 -faults.seeds $(SEEDS)
	go test ./e2e/sim -run TestSeeds -timeout 0 -sim.seeds $(SEEDS)

bench: ## benchmarks in Go, compared with those of the last release
	@mkdir -p bin
	@set -o pipefail; { $(benchmarks); } | tee bin/bench.txt
	@go tool -modfile=tools/benchstat.mod benchstat last=$(LAST) now=bin/bench.txt

bench-baseline: ## what make bench compares with, made anew: at a release
	@mkdir -p $(dir $(LAST))
	@set -o pipefail; { $(benchmarks); } | tee $(LAST)

# Hours at full size, minutes with ARGS=--quick. DATA is a directory on a disk.
DATA ?= /var/tmp
bench-scenarios: build ## all scenarios of escher bench that need no containers
	bin/escher bench --scenario all --data $(DATA) $(ARGS)

clean: ## remove what was built
	rm -rf bin
