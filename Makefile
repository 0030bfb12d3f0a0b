# The tools are pinned here and built by Go itself into .tools.
GOLANGCI_VERSION := v2.15.0
TOOLS := $(CURDIR)/.tools
GOLANGCI := $(TOOLS)/golangci-lint-$(GOLANGCI_VERSION)

GORELEASER_VERSION := v2.16.0
CYCLONEDX_VERSION := v1.10.0
GORELEASER := $(TOOLS)/goreleaser-$(GORELEASER_VERSION)
CYCLONEDX := $(TOOLS)/cyclonedx-gomod-$(CYCLONEDX_VERSION)

# Servers of earlier versions, which the long proofs run, beside a Prometheus.
SERVERS := v2.10.29 v2.11.4 v2.11.8 v2.11.17 v2.12.15 v2.14.9 v2.15.2

# What vet, race, field and prove are run for: .ci/run gives them the packages that a change concerns. The go command
# calls those of every module of go.work `work`, other tools do not.
WORK = work
PACKAGES = $(shell go list -m -f '{{.Dir}}/...')

# Sorts packages: those that take the longest come first, or all others would be done before they begin.
LONGEST = awk '{ print /leader_test$$/ ? 1 : /mutation$$/ ? 2 : /cmd.natsleader$$/ ? 3 : /shard$$|torture$$/ ? 4 : 5, $$0 }' | sort -sn -k1,1 | cut -d' ' -f2

.PHONY: all help check test race field prove nightly explorations busy alerts vet lint format format-check tidy tidy-check deps-check vulnerabilities compatibility rehearsal package package-tools publish bench peers peers-check scale results pictures demo playground tools servers clean

all: test lint ## what to run before a commit

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "%-15s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

check: ## what CI runs: all that the change since the last green commit can break (.ci/run), or BASE=all
	.ci/run $(BASE)

test: ## the tests of every module but those in real time, with a sample of each long proof: at most two minutes
	go test work

# In those that are left out no goroutines meet.
race: ## the same with the race detector, shorter
	@go list -e -f '{{if or .TestGoFiles .XTestGoFiles}}{{.ImportPath}}{{end}}' $(WORK) | sed -E '/(internal.(machine|group|slots|record|api)|mutation)$$/d' | \
		$(LONGEST) | xargs -r go test -race $(SHUFFLE) -timeout=20m

# What follows prints how much of everything it ran (package internal/proof).
COUNTED := totals=$$(mktemp) && trap 'rm -f "$$totals"' EXIT && export NATSLEADER_TOTALS="$$totals"

# Those of *_field_test.go, which wait most of the time. TAGS=field for samples of those that take long, SHUFFLE=-shuffle=on for
# a random order.
TAGS = field,prove
field: $(if $(findstring prove,$(TAGS)),servers) ## the tests in real time, in full
	@$(COUNTED) && go list -tags $(TAGS) -f '{{.ImportPath}} {{.TestGoFiles}} {{.XTestGoFiles}}' $(WORK) | sed -n 's| .*_field_test\.go.*||p' | \
		$(LONGEST) | xargs -r scripts/field -p=2 $(SHUFFLE) -tags=$(TAGS) -timeout=30m && sort "$$totals"

# The other packages have no test of two sizes.
prove: ## the other tests in full
	@$(COUNTED) && go list -f '{{.ImportPath}} {{.TestImports}} {{.XTestImports}}' $(WORK) | sed -n 's|^\([^ ]*\) .*/internal/proof[] ].*|\1|p' | \
		xargs -r go test -tags=prove -timeout=30m && sort "$$totals"

nightly: ## what CI has no time for (scripts/nightly), or PARTS of it: hours
	scripts/nightly $(PARTS)

# The page names the commit, so nothing may differ from it. The race detector does not see into the programs that the
# mutants and the command start, and would make the many processes of torture late.
explorations: servers ## explore every situation that one fault leads to, write how many there are into docs/exploration.md, and explore, simulate and torture for longer: hours
	@if [ -n "$$(git status --porcelain -- . ':!.ci/green')" ]; then echo "commit first: docs/exploration.md names the commit"; exit 1; fi
	go test -count=1 -timeout 4h -run '^TestExploration_PageIsComplete$$' -v ./internal/machine -nightly "$$(git rev-parse HEAD)"
	go test -count=1 -timeout 4h -tags prove -run Exploration ./internal/group -whole
	go test -count=1 -timeout 4h -tags prove ./internal/machine -states 100000 -walks 100000
	go test -count=1 -timeout 4h -run Whatever ./leader_test -simulations 3000
	go test -count=1 -timeout 4h -run Whatever ./shard -simulations 1000
	go test ./internal/machine -run TestExploration -v -faults 2 -states 100000 -timeout 2h
	go test ./internal/machine -run 'TestExploration/^(sealed|ordinary|leases|drain)$$' -v -faults 2 -states 2000000 -timeout 2h
	go test ./internal/machine -run TestRandomWalks -walks 300000 -timeout 2h
	go test ./internal/machine -run '^$$' -fuzz FuzzMachine -fuzztime 500000x -fuzzminimizetime 20x
	go test ./internal/leadertest -run '^$$' -fuzz FuzzJunk -fuzztime 100000x -fuzzminimizetime 20x
	go test -tags field,prove ./torture -run Torture -v -duration 15m -timeout 2h
	scripts/field -p=2 -race -shuffle=on -tags=field,prove -timeout=60m -skip='^TestScale_HalfTheProcessorTime$$' ./leader_test $$(go list work | grep -v -e '/mutation$$' -e '/cmd/natsleader$$' -e '/torture$$')
	$(MAKE) peers-check

busy: ## `make test` beside four busy loops
	@for i in 1 2 3 4; do (while :; do :; done) & pids="$$pids $$!"; done; \
	trap 'kill $$pids' EXIT; go test -count=1 work

# An hour of faults in seven minutes, most of them waits. The alerts' times are a tenth, so the machine
# must be idle.
alerts: servers ## the alerts in a real Prometheus, beside a cluster with faults
	scripts/prometheus
	go test -tags field,alerts -count=1 -timeout 30m -run '^TestAlerts_' -v ./cmd/natsleader

# With the tags there is more to read: without them go test vets what it runs. Elsewhere without the
# tests: to compile the server for three more systems takes minutes.
vet: ## go vet, and builds for other systems
	go vet -tags prove,alerts,field $(WORK)
	for os in darwin windows; do GOOS=$$os go build ./leader ./fence ./roster ./seats ./kvelect ./schedule ./shard ./keys ./leadertest ./health ./metrics ./cmd/natsleader ./examples/playground || exit 1; done
	GOARCH=386 go build ./leader ./fence ./leadertest

tools: $(GOLANGCI) ## build the linter into .tools

$(GOLANGCI):
	mkdir -p $(TOOLS)
	GOBIN=$(TOOLS) GOFLAGS=-mod=mod go install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(GOLANGCI_VERSION)
	mv $(TOOLS)/golangci-lint $(GOLANGCI)

servers: $(SERVERS:%=$(TOOLS)/nats-server-%) ## build earlier versions of nats-server into .tools

$(TOOLS)/nats-server-%:
	mkdir -p $(TOOLS)/$*
	GOBIN=$(TOOLS)/$* GOFLAGS=-mod=mod go install github.com/nats-io/nats-server/v2@$*
	mv $(TOOLS)/$*/nats-server $@
	rmdir $(TOOLS)/$*

# With the tags, as vet.
lint: $(GOLANGCI) ## golangci-lint
	$(GOLANGCI) run --allow-parallel-runners --build-tags prove,alerts,field $(PACKAGES)

format: $(GOLANGCI) ## format the code
	$(GOLANGCI) fmt ./...

format-check: $(GOLANGCI) ## fail where `make format` would change something
	$(GOLANGCI) fmt --diff ./...

tidy: ## go mod tidy in every module
	scripts/tidy

tidy-check: ## fail where `make tidy` would change something
	scripts/tidy -diff

# What a program pulls in with the importable packages of the root module. Every requirement of
# the root module is in the module graph of each program that imports one of them.
deps-check: ## fail if an importable package imports more than the standard library, nats.go and golang.org/x/sync, or the root module requires more
	@extra=$$(go list -deps -f '{{if not .Standard}}{{.ImportPath}}{{end}}' ./leader ./fence ./roster ./seats ./kvelect ./schedule ./shard ./keys ./leadertest ./health \
		| grep -v -e '^github.com/natsleader/natsleader/' -e '^github.com/nats-io/nats.go' -e '^golang.org/x/sync' \
		| xargs -r go list -f '{{.ImportPath}} {{.Module.Path}}' \
		| grep -v -w -F -f <(go list -deps -f '{{with .Module}}{{.Path}}{{end}}' github.com/nats-io/nats.go/jetstream | sort -u) || true); \
	if [ -n "$$extra" ]; then echo "unexpected dependencies:"; echo "$$extra"; exit 1; fi
	@direct=$$(sed -n '/^require/,/^)/s/^\t\([^ ]*\) [^ ]*$$/\1/p' go.mod | xargs); \
	if [ "$$direct" != "github.com/nats-io/nats-server/v2 github.com/nats-io/nats.go go.uber.org/goleak golang.org/x/sync" ]; then echo "the root module requires $$direct"; exit 1; fi

vulnerabilities: ## known vulnerabilities in what is used: needs vuln.go.dev
	go run golang.org/x/vuln/cmd/govulncheck@v1.9.0 work

compatibility: ## write what the packages export to internal/api/testdata, where a review sees each change
	go test ./internal/api -update

rehearsal: ## install and import a release of this tree, as users do
	scripts/rehearsal

package-tools: $(GORELEASER) $(CYCLONEDX) ## build what `make package` needs into .tools: seven minutes, once

# GoReleaser 2.17 needs a module that the module proxy does not have.
$(GORELEASER):
	mkdir -p $(TOOLS)
	GOBIN=$(TOOLS) GOFLAGS=-mod=mod go install github.com/goreleaser/goreleaser/v2@$(GORELEASER_VERSION)
	mv $(TOOLS)/goreleaser $(GORELEASER)

$(CYCLONEDX):
	mkdir -p $(TOOLS)
	GOBIN=$(TOOLS) GOFLAGS=-mod=mod go install github.com/CycloneDX/cyclonedx-gomod/cmd/cyclonedx-gomod@$(CYCLONEDX_VERSION)
	mv $(TOOLS)/cyclonedx-gomod $(CYCLONEDX)

# TARGETS=linux_amd64 for one of the systems alone.
package: package-tools ## what a release publishes, but the image, into dist, and checks of it
	GORELEASER=$(GORELEASER) CYCLONEDX=$(CYCLONEDX) scripts/package $(TARGETS)

publish: package-tools ## a release of the tag that is checked out: CONTRIBUTING.md
	mkdir -p $(TOOLS)/bin
	ln -sf $(CYCLONEDX) $(TOOLS)/bin/cyclonedx-gomod
	PATH=$(TOOLS)/bin:$$PATH $(GORELEASER) release --clean

bench: ## the benchmarks of the library
	go test -tags field -run '^$$' -bench . ./leader_test

# A workspace of its own, with the libraries and their servers. Of an idle machine. ARGS='--json' and the like: bench/README.md.
peers: ## natsleader beside other libraries
	go -C bench run . $(ARGS)

peers-check: $(GOLANGCI) ## what checks bench, which is not in go.work: vet, lint, tidiness and tests
	go -C bench vet -tags field .
	cd bench && $(GOLANGCI) run --allow-parallel-runners --build-tags field ./...
	scripts/tidy bench -diff
	cd bench && ../scripts/field -shuffle=on -tags=field -timeout=30m .

# Of an idle machine: nothing else should run. JSON=FILE writes the table to a file, too.
scale: ## 10,000 elections in one process: set-up, memory, processor time, and what they survive
	go test -tags field -run '^$$' -bench '^BenchmarkScale$$' -timeout 30m ./leader_test -scale.full $(if $(JSON),-scale.json $(abspath $(JSON)))

# Of an idle machine. ONLY=REGEXP for the sections whose heading or command matches.
results: ## run the commands of docs/results.md, and write their results into it: 25 minutes
	go run ./internal/results -only '$(ONLY)'

# Of an idle machine, with Chromium (scripts/browser).
pictures: ## the pictures of the pages that programs make
	go -C bench run . --measure handover,crash --svg ../docs/pictures/peers.svg
	go run ./examples/demo -duration 30s -svg docs/pictures/failovers.svg
	new=$$(mktemp -d) && NATSLEADER_PICTURES=$$new go test -tags field -count=1 -run '^Test(UI|Playground)_InBrowser$$' ./cmd/natsleader && \
		for each in docs/pictures/*.png; do cp $$new/$${each##*/} $$each; done && rm -r $$new

demo: ## the demonstration
	go run ./examples/demo

playground: ## the same in a browser, to try
	go run ./examples/playground

clean: ## remove .tools
	rm -rf $(TOOLS)

SHELL := /bin/bash
.SHELLFLAGS := -o pipefail -c
