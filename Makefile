# Copyright The sample-controller authors.
# SPDX-License-Identifier: Apache-2.0

# All build output goes here.
BIN := .build/bin
# The race detector needs a C compiler.
RACE := $(if $(shell command -v cc 2> /dev/null),-race)
# The modules to lint. Not hack/cluster/controlplane: linting it would analyze all of Kubernetes.
MODULES := . hack/cluster hack/cluster/faults hack/e2e hack/release
# KUBERNETES=1.35 chooses an older version of the local Kubernetes. hack/cluster reads it from the environment.
export KUBERNETES
# Memory for a quarter of the CPU time: most compilers need less than half of the limit above which they collect garbage.
COMPILERS := '-toolexec=env GOGC=off GOMEMLIMIT=1GiB'
# go.mod decides which modules are used, not a workspace or a vendor directory. Other flags of the user remain, also
# those that go env -w has set.
export GOWORK := off
USER_GOFLAGS := $(filter-out -mod=% --mod=% -modfile=% --modfile=% $(COMPILERS),$(shell go env GOFLAGS 2> /dev/null))
export GOFLAGS := $(strip $(COMPILERS) $(USER_GOFLAGS) -mod=readonly)

.PHONY: help
help: ## Show this help.
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  %-18s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: run
run: $(if $(CLUSTER),,cluster) build ## Run the controller and the example Foo on a local Kubernetes, or on yours with CLUSTER=current, until Ctrl-C.
	@$(if $(CLUSTER),CLUSTER='$(CLUSTER)' YES='$(YES)',$(BIN)/cluster run --) hack/run.sh

# The outputs of the two do not mix: go test prints that of a package at its end, and the cluster, which shows its progress, is built before.
.PHONY: test
test: cluster ## Test a change: generated files, gofmt, go vet, unit tests, simulation, end-to-end tests.
	@$(MAKE) --no-print-directory --jobs=2 test-e2e test-without-cluster

.PHONY: test-without-cluster
test-without-cluster: # One after the other, beside the end-to-end tests, which wait most of the time.
	@$(MAKE) --no-print-directory verify
	@$(MAKE) --no-print-directory test-unit
	@$(MAKE) --no-print-directory test-simulation

.PHONY: check
check: lint verify-modules ## Check what make test does not: linters, go.mod files, and what else is in hack.

# Without flags, as the local Kubernetes and the tests: what they have in common is compiled once.
.PHONY: build
build: ## Build the controller binary.
	go build -o $(BIN)/sample-controller .

.PHONY: cluster
cluster: ## Build the local Kubernetes; takes minutes the first time. KUBERNETES=1.35 builds an older version.
	@go -C hack/cluster build -o ../../$(BIN)/cluster ./cmd/cluster
	@$(BIN)/cluster build

# Without go vet, which make verify runs: it would analyze all dependencies once more, with the race detector.
.PHONY: test-unit
test-unit: ## Run the unit tests.
	go test -vet=off $(RACE) -skip=TestSimulation ./...

.PHONY: test-simulation
test-simulation: ## Run probes, trials and WALKS=60 random walks with faults in simulated clusters, beginning with SEED=1.
	go test -vet=off $(RACE) -run='TestSimulation/^walks$$' . -walks=5
	go test -vet=off -timeout=1h -run=TestSimulation . -walks=$(or $(WALKS),60) -seed=$(or $(SEED),1) -record=.build/stories

.PHONY: test-release
test-release: ## Test what a release consists of, such as the Helm chart.
	go -C hack/release test -count=1 -timeout 1h ./...

# End-to-end tests that only make test-faults runs: they stop components of the local Kubernetes, or take long.
FAULT_TESTS := TestOutages

.PHONY: test-e2e
test-e2e: build cluster ## Run the end-to-end tests, but for those that stop components of the local Kubernetes.
	go -C hack/e2e test -count=1 -timeout 1h -parallel 12 -skip '$(FAULT_TESTS)' .

.PHONY: test-faults
test-faults: cluster ## Run the end-to-end tests that make test leaves out, which stop components of the local Kubernetes or take long.
	go -C hack/e2e test -count=1 -timeout 1h -parallel 12 -run '$(FAULT_TESTS)' .

.PHONY: soak
soak: ## Run random walks with faults for SOAK=10m.
	$(SOAK_WALKS)

SOAK_WALKS = go test -vet=off -c -o $(BIN)/simulation.test . && \
  $(BIN)/simulation.test -test.run=TestSimulation -walks=100 -soak=$(or $(SOAK),10m) -seed=$(or $(SEED),$$(date +%s))

.PHONY: image
image: ## Build the container image for linux/amd64 and linux/arm64; does not need Docker.
	@go -C hack/release build -o ../../$(BIN)/image ./image
	@$(BIN)/image

.PHONY: release
release: ## Build the release VERSION=v1.2.3 of the commit into dist, with the image IMAGE=registry/name.
	@go -C hack/release build -o ../../$(BIN)/release .
	@$(BIN)/release -version='$(VERSION)' $(if $(IMAGE),-image='$(IMAGE)')

.PHONY: generate
generate: ## Generate code and the CRD from the types in pkg/apis.
	hack/update-codegen.sh

# Not those of dependencies.
# Those that were deleted, but not from the index, are listed twice.
GO_FILES := { git ls-files -co --exclude-standard '*.go' ':!vendor'; git ls-files -d '*.go' ':!vendor'; } | sort | uniq -u

.PHONY: has-git
has-git:
	@error=$$(git ls-files --error-unmatch Makefile 2>&1 > /dev/null) || \
	  { echo "make verify and make fmt need git: install it, and use a clone, or run git init and git add --all:" \
	    $$error >&2; exit 1; }

.PHONY: verify
verify: has-git ## Verify that generated files are up to date and the code is formatted, and run go vet.
	@hack/verify-codegen.sh
	@hack/verify-kept.sh
	@unformatted=$$($(GO_FILES) | xargs gofmt -l); \
	  test -z "$$unformatted" || { echo "not formatted, run make fmt: $$unformatted" >&2; exit 1; }
	go vet ./...

.PHONY: verify-modules
verify-modules: ## Verify that all go.mod and go.sum are up to date.
	@for module in $(MODULES) hack/tools; do go -C $$module mod tidy -diff || exit 1; done
	@cd hack/cluster/controlplane && for file in *.mod; do go mod tidy -modfile=$$file -diff || exit 1; done

.PHONY: lint
lint: ## Run go vet, staticcheck and loggercheck in all modules, and actionlint.
	@for module in $(MODULES); do \
	  echo "lint $$module" && go -C $$module vet ./... && \
	  (tools=$$PWD/hack/tools/go.mod; cd $$module && packages=$$(go list ./... | grep -v /pkg/generated/) && \
	    go tool -modfile="$$tools" staticcheck $$packages && go tool -modfile="$$tools" loggercheck $$packages) || exit 1; done
	go tool -modfile=hack/tools/go.mod actionlint -shellcheck= -pyflakes=

.PHONY: fmt
fmt: has-git ## Format the code.
	$(GO_FILES) | xargs gofmt -w

.PHONY: install
install: ## Install the CRD.
	kubectl apply -f artifacts/examples/crd.yaml

.PHONY: uninstall
uninstall: ## Uninstall the CRD, which deletes all Foos.
	kubectl delete --ignore-not-found -f artifacts/examples/crd.yaml

# The image to deploy.
IMG ?= sample-controller:latest

.PHONY: deploy
deploy: ## Deploy the controller with IMG=registry/name:tag; NAMESPACE=name limits it to one namespace.
	@$(if $(NAMESPACE),kubectl get namespace/$(NAMESPACE) crd/foos.samplecontroller.k8s.io > /dev/null)
	@mkdir -p .build/deploy
	@printf '%s\n' \
	  $(if $(NAMESPACE),'resources: [../../artifacts/install/one-namespace]' 'namespace: "$(NAMESPACE)"','resources: [../../artifacts]') \
	  'patches:' \
	  '- target: {kind: Deployment, name: sample-controller}' \
	  '  patch: "- {op: replace, path: /spec/template/spec/containers/0/image, value: $(IMG)}"' \
	  > .build/deploy/kustomization.yaml
	kubectl apply -k .build/deploy

.PHONY: undeploy
undeploy: ## Delete the controller, the CRD and all Foos; with NAMESPACE=name only the controller in that namespace.
	kubectl delete --ignore-not-found $(if $(NAMESPACE),-n $(NAMESPACE) -k artifacts/install/one-namespace,-k artifacts)
	$(if $(NAMESPACE),kubectl delete --ignore-not-found -n $(NAMESPACE) lease/sample-controller)

.PHONY: clean
clean: ## Remove all build output.
	rm -rf .build dist sample-controller

# What a controller that was created from this one does not have.
include $(wildcard hack/*/*.mk)
