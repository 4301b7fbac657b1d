# Copyright The sample-controller authors.
# SPDX-License-Identifier: Apache-2.0

# What checks this project. The paths are relative to the root of the repository.

MODULES += hack/check/bench hack/check/doctest hack/check/monitoring
check: test-docs test-monitoring
FAULT_TESTS := $(FAULT_TESTS)|TestRestoredEtcd|TestRandomWalks

# make soak CLUSTER=local has random walks in the local Kubernetes.
ifdef CLUSTER
soak: cluster
SOAK_WALKS = go -C hack/e2e test -count=1 -timeout 0 -v -run TestRandomWalks . -args -soak=$(or $(SOAK),30m) -seed=$(or $(SEED),0)
endif

.PHONY: test-cluster
test-cluster: cluster ## Test the local Kubernetes.
	go -C hack/cluster test -count=1 ./...
	go -C hack/cluster/faults test -count=1 ./...

.PHONY: test-docs
test-docs: cluster ## Test the links, references and commands in the documentation, and that nothing needs more than macOS has.
	go -C hack/check/doctest test -count=1 -skip TestExercises ./...

.PHONY: test-monitoring
test-monitoring: ## Test the alerts and the dashboard on recorded metrics, and what the kustomize components render to.
	go -C hack/check/monitoring test -count=1 ./...

# Not in MODULES: linting it would analyze all of Kubernetes.
.PHONY: test-others
test-others: cluster ## Walk with controllers that others wrote, and make on the local Kubernetes what they break.
	go -C hack/check/others test -vet=off -count=1 -timeout 1h ./...

.PHONY: record-metrics
record-metrics: cluster build ## Record the metrics that the alerts are tested on, on a local Kubernetes.
	go -C hack/check/monitoring run ./record

ifdef WITH
$(if $(filter-out controller-runtime,$(WITH)),$(error WITH must be controller-runtime))
run: controller-runtime
run: export WITH := $(WITH)
endif

.PHONY: controller-runtime
controller-runtime: ## Build the same controller written with controller-runtime, for make run WITH=controller-runtime.
	go -C hack/check/bench build -o ../../../$(BIN)/controllerruntime ./controllerruntime

# N, WORKERS and ONLY are comma-separated lists; OTHER='path -workers={workers}' adds a program; ROUNDS=3 repeats the phases that vary most.
# KEEP is the file in hack/check/bench that is updated; without N and WORKERS, it is results.md. GOMEMLIMIT overrides the manifest's.
.PHONY: bench
bench: cluster ## Benchmark the controller and others with 10,000 Foos: 45 minutes; 10 minutes with N=1000 WORKERS=2.
	@cd hack/check/bench && go build -o ../../../$(BIN)/bench . && \
	  ../../../$(BIN)/bench $(addprefix -keep=,$(or $(KEEP),$(if $(N)$(WORKERS),,results.md))) $(if $(N),-n=$(N)) $(if $(WORKERS),-workers=$(WORKERS)) \
	    $(if $(ROUNDS),-rounds=$(ROUNDS)) $(if $(ONLY),-only='$(ONLY)') $(if $(OTHER),-other='$(OTHER)')
