# Copyright The sample-controller authors.
# SPDX-License-Identifier: Apache-2.0

# Everything that is built goes here; git ignores it, and `make clean` removes it.
BIN := .build/bin
# The race detector needs a C compiler.
RACE := $(if $(shell command -v cc),-race)
# The modules whose code is ours. To lint hack/cluster/controlplane, one file, would mean to analyse all of Kubernetes.
MODULES := . hack/cluster hack/e2e hack/image

.PHONY: help
help: ## Show this.
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: run
run: build cluster ## Start a local Kubernetes, the controller and the example Foo; Ctrl-C ends all of it.
	@$(BIN)/cluster run -- hack/run.sh

.PHONY: test
test: verify lint test-unit test-image test-cluster test-e2e ## Check everything that CI checks.

.PHONY: build
build: ## Build the controller.
	CGO_ENABLED=0 go build -o $(BIN)/sample-controller .

.PHONY: cluster
cluster: ## Build the local Kubernetes; the first time takes minutes.
	@go -C hack/cluster build -o ../../$(BIN)/cluster ./cmd/cluster
	@$(BIN)/cluster build

.PHONY: test-unit
test-unit: ## Run the unit tests.
	go test $(RACE) ./...

.PHONY: test-image
test-image: ## Test the image build.
	go -C hack/image test ./...

.PHONY: test-cluster
test-cluster: cluster ## Test the local Kubernetes itself.
	go -C hack/cluster test -count=1 ./...

.PHONY: test-e2e
test-e2e: cluster ## Run the end-to-end tests on the local Kubernetes.
	go -C hack/e2e test -count=1 -timeout 30m -parallel 12 ./...

.PHONY: soak
soak: cluster ## Walk at random with faults for SOAK=30m; a walk that failed is made again with SEED=number SOAK=0.
	go -C hack/e2e test -count=1 -timeout 0 -v -run TestRandomWalks . -args -soak=$(or $(SOAK),30m) -seed=$(or $(SEED),0)

.PHONY: image
image: ## Build a container image for linux/amd64 and linux/arm64, without Docker.
	@go -C hack/image build -o ../../$(BIN)/image .
	@$(BIN)/image

.PHONY: generate
generate: ## Regenerate all code and manifests that are made from the types in pkg/apis.
	hack/update-codegen.sh

.PHONY: verify
verify: ## Fail if generated files, go.mod or go.sum are not up to date.
	@hack/verify-codegen.sh
	@for module in $(MODULES) hack/cluster/controlplane hack/tools; do go -C $$module mod tidy -diff || exit 1; done

.PHONY: lint
lint: ## Fail if the code is not formatted, or vet, staticcheck or loggercheck find fault with it.
	@unformatted=$$(git ls-files -co --exclude-standard '*.go' | xargs gofmt -l); \
	  test -z "$$unformatted" || { echo "not formatted, run make fmt: $$unformatted" >&2; exit 1; }
	@for module in $(MODULES); do \
	  echo "lint $$module" && go -C $$module vet ./... && \
	  (tools=$$PWD/hack/tools/go.mod; cd $$module && packages=$$(go list ./... | grep -v /pkg/generated/) && \
	    go tool -modfile="$$tools" staticcheck $$packages && go tool -modfile="$$tools" loggercheck $$packages) || exit 1; done

.PHONY: fmt
fmt: ## Format the code.
	git ls-files -co --exclude-standard '*.go' | xargs gofmt -w

.PHONY: install
install: ## Make Foos known to the cluster.
	kubectl apply -f artifacts/examples/crd.yaml

.PHONY: uninstall
uninstall: ## Remove the Foo definition, and with it all Foos, from the cluster.
	kubectl delete --ignore-not-found -f artifacts/examples/crd.yaml

# The image that is deployed.
IMG ?= sample-controller:latest

.PHONY: deploy
deploy: ## Install in the cluster: IMG=registry/name:tag; for one namespace NAMESPACE=name.
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
undeploy: ## Remove everything, and with it all Foos; with NAMESPACE=name the controller there alone.
	kubectl delete --ignore-not-found $(if $(NAMESPACE),-n $(NAMESPACE) -k artifacts/install/one-namespace,-k artifacts)
	$(if $(NAMESPACE),kubectl delete --ignore-not-found -n $(NAMESPACE) lease/sample-controller)

# new: leave out
# Numbers of Foos and of workers to measure, and another program: N=1000 WORKERS=2 OTHER='path -workers={workers}'.
.PHONY: bench
bench: cluster ## Measure speed and cost beside others: all takes two hours, N=1000 WORKERS=2 a quarter of one.
	@cd hack/bench && go build -o ../../$(BIN)/bench . && \
	  ../../$(BIN)/bench $(if $(N)$(WORKERS),,-keep=.) $(if $(N),-n=$(N)) $(if $(WORKERS),-workers=$(WORKERS)) $(if $(OTHER),-other='$(OTHER)')

.PHONY: new
new: ## Begin your own controller: DIR=../db-controller MODULE=example.com/db-controller GROUP=db.example.com KIND=Database.
	@go -C hack/newcontroller build -o ../../$(BIN)/newcontroller .
	@$(BIN)/newcontroller -dir='$(DIR)' -module='$(MODULE)' -group='$(GROUP)' -kind='$(KIND)' -plural='$(PLURAL)'

.PHONY: test-new
test-new: ## Begin a controller under unusual names, and test it.
	go -C hack/newcontroller test -count=1 -timeout 20m ./...

test: test-new
MODULES += hack/bench hack/newcontroller
# new: end

.PHONY: clean
clean: ## Remove all that was built.
	rm -rf .build sample-controller
