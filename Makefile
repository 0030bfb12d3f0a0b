# The tools are pinned here and built by Go itself into .tools.
GOLANGCI_VERSION := v2.15.0
TOOLS := $(CURDIR)/.tools
GOLANGCI := $(TOOLS)/golangci-lint-$(GOLANGCI_VERSION)

.PHONY: all check test race lint format format-check deps-check bench demo tools clean

all: test lint

check: ## everything that CI runs
	.ci/run

test:
	go test ./...

race:
	go test -race -shuffle=on -count=3 ./...

tools: $(GOLANGCI)

$(GOLANGCI):
	mkdir -p $(TOOLS)
	GOBIN=$(TOOLS) GOFLAGS=-mod=mod go install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(GOLANGCI_VERSION)
	mv $(TOOLS)/golangci-lint $(GOLANGCI)

lint: $(GOLANGCI)
	$(GOLANGCI) run ./...

format: $(GOLANGCI)
	$(GOLANGCI) fmt ./...

format-check: $(GOLANGCI)
	$(GOLANGCI) fmt --diff ./...

# What a program pulls in with the importable packages, but for metrics.
deps-check:
	@extra=$$(go list -deps -f '{{if not .Standard}}{{.ImportPath}}{{end}}' ./leader ./leadertest ./health \
		| grep -v -e '^github.com/natsleader/natsleader/' -e '^github.com/nats-io/nats.go' \
		| xargs -r go list -f '{{.ImportPath}} {{.Module.Path}}' \
		| grep -v -w -F -f <(go list -deps -f '{{with .Module}}{{.Path}}{{end}}' github.com/nats-io/nats.go/jetstream | sort -u) || true); \
	if [ -n "$$extra" ]; then echo "unexpected dependencies:"; echo "$$extra"; exit 1; fi

bench:
	go test -run '^$$' -bench . ./leader_test

demo:
	go run ./examples/demo

clean:
	rm -rf $(TOOLS)

SHELL := /bin/bash
