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
# go.mod decides which modules are used, not a workspace or a vendor directory. Other flags of the user remain, also
# those that go env -w has set.
export GOWORK := off
USER_GOFLAGS := $(filter-out -mod=% --mod=% -modfile=% --modfile=%,$(shell go env GOFLAGS 2> /dev/null))
export GOFLAGS := $(strip $(USER_GOFLAGS) -mod=readonly)

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
	go test -vet=off -timeout=1h -run=TestSimulation . -walks=$(or $(WALKS),60) -seed=$(or $(SEED),1)

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

# new: only with FULL=1
.PHONY: release
release: ## Build the release VERSION=v1.2.3 of the commit into dist, with the image IMAGE=registry/name.
	@go -C hack/release build -o ../../$(BIN)/release .
	@$(BIN)/release -version='$(VERSION)' $(if $(IMAGE),-image='$(IMAGE)')
# new: end

.PHONY: generate
generate: ## Generate code and the CRD from the types in pkg/apis.
	hack/update-codegen.sh

# Not those of dependencies.
GO_FILES := git ls-files -co --exclude-standard '*.go' ':!vendor'

.PHONY: has-git
has-git:
	@error=$$(git ls-files --error-unmatch Makefile 2>&1 > /dev/null) || \
	  { echo "make verify and make fmt need git: install it, and use a clone, or run git init and git add --all:" \
	    $$error >&2; exit 1; }

.PHONY: verify
verify: has-git ## Verify that generated files are up to date and the code is formatted, and run go vet.
	@hack/verify-codegen.sh
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

# new: only with FULL=1
MODULES += hack/doctest hack/lab/pagetest hack/lab/site hack/monitoring hack/variants
check: test-docs test-lab test-monitoring test-variants
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

.PHONY: lab
lab: build-lab ## Watch the controller at work, and break it, on a page in the browser, without a cluster.
	@$(BIN)/lab

.PHONY: build-lab
build-lab:
	@go -C hack/lab/site build -o ../../../$(BIN)/lab .

.PHONY: site
site: build-lab ## Write the lab and the documentation to dist/site, for any static host. It needs npm.
	rm -rf dist/site
	$(BIN)/lab -site=dist/site $(if $(REPOSITORY),-repository='$(REPOSITORY)')

.PHONY: recordings
recordings: build-lab ## Record what the lab plays where it is not live, in .build/lab.
	@$(BIN)/lab -recordings

# The tests of the page that need no browser.
WITHOUT_BROWSER := TestState|TestTravel|TestRecording|TestChecks

.PHONY: test-lab
test-lab: recordings ## Test the lab, except for what a browser shows of its page.
	go test $(RACE) ./hack/lab
	go -C hack/lab/site test -count=1 ./...
	go -C hack/lab/pagetest test -count=1 -run '$(WITHOUT_BROWSER)' .

.PHONY: test-lab-page
test-lab-page: build-lab ## Test the page of the lab in a browser: Chromium.
	go -C hack/lab/pagetest test -count=1 -timeout 1h -skip '$(WITHOUT_BROWSER)' ./...

.PHONY: exercise
exercise: ## Give exercise N=5 of docs/learn/exercises.md, in .build/exercise/5 or DIR, and check it; HINT=1 or SOLUTION=1 helps.
	@go -C hack/variants run ./exercise -root=../.. -n='$(N)' -dir='$(if $(DIR),$(abspath $(DIR)))' $(if $(HINT),-hint) $(if $(SOLUTION),-solution)

.PHONY: exercises-docs
exercises-docs: ## Write the variants of the controller to docs/learn/exercises.md.
	go -C hack/variants test -count=1 -run=TestMarkdownIsUpToDate . -args -update

.PHONY: test-variants
test-variants: ## Test that each variant of the controller, which lacks one thing that it does, is caught by a test.
	go -C hack/variants test -count=1 -timeout 1h ./...

.PHONY: mutants
mutants: ## Try N=30 mutants, the controller with one line changed, and show which the walks notice: about a minute each.
	@go -C hack/variants run ./mutants -root=../.. -n=$(or $(N),30) -seed=$(or $(SEED),1) -walks=$(or $(WALKS),100)

.PHONY: test-docs
test-docs: cluster ## Test the links, references and commands in the documentation, and that nothing needs more than macOS has.
	go -C hack/doctest test -count=1 -skip TestExercises ./...

.PHONY: test-monitoring
test-monitoring: ## Test the alerts and the dashboard on recorded metrics, and what the kustomize components render to.
	go -C hack/monitoring test -count=1 ./...

.PHONY: record-metrics
record-metrics: cluster build ## Record the metrics that the alerts are tested on, on a local Kubernetes.
	go -C hack/monitoring run ./record
# new: end

# new: leave out
ifdef WITH
$(if $(filter-out controller-runtime,$(WITH)),$(error WITH must be controller-runtime))
run: controller-runtime
run: export WITH := $(WITH)
endif

.PHONY: controller-runtime
controller-runtime: ## Build the same controller written with controller-runtime, for make run WITH=controller-runtime.
	go -C hack/bench build -o ../../$(BIN)/controllerruntime ./controllerruntime

# N, WORKERS and ONLY are comma-separated lists; OTHER='path -workers={workers}' adds a program; ROUNDS=3 repeats the phases that vary most.
# KEEP is the file in hack/bench that is updated; without N and WORKERS, it is results.md. GOMEMLIMIT overrides the manifest's.
.PHONY: bench
bench: cluster ## Benchmark the controller and others with 10,000 Foos: 45 minutes; 10 minutes with N=1000 WORKERS=2.
	@cd hack/bench && go build -o ../../$(BIN)/bench . && \
	  ../../$(BIN)/bench $(addprefix -keep=,$(or $(KEEP),$(if $(N)$(WORKERS),,results.md))) $(if $(N),-n=$(N)) $(if $(WORKERS),-workers=$(WORKERS)) \
	    $(if $(ROUNDS),-rounds=$(ROUNDS)) $(if $(ONLY),-only='$(ONLY)') $(if $(OTHER),-other='$(OTHER)')

.PHONY: stage
stage: ## Run the lessons of stage N=3 of the tutorial, and that of the next stage; with DIR=mine your own code for that stage.
	@test -f hack/tutorial/stage$(N)/main.go || { echo "N must be the number of a stage, from 1 to 9."; exit 2; }
	@test -f $(or $(DIR),hack/tutorial/stage$(N))/main.go || { echo "There is no $(DIR)/main.go: DIR is the directory with your main.go."; exit 2; }
	@rm -rf .build/stage && mkdir -p .build/stage && cp $(or $(DIR),hack/tutorial/stage$(N))/main.go hack/tutorial/stage$(N)/main_test.go .build/stage
	@go test -count=1 -timeout=1m -v ./.build/stage > .build/stage/output 2>&1; status=$$?; \
	  grep -v '^=== \|^[IEW][0-9]' .build/stage/output; \
	  test $$status = 0 || echo 'What your program has logged is in .build/stage/output.'; exit $$status

.PHONY: tutorial-docs
tutorial-docs: ## Write the stories of the tutorial, and the differences between its stages, to docs/learn/tutorial.
	go test -count=1 ./hack/tutorial/stage... -args -stories=$(CURDIR)/hack/tutorial/stories
	go test -count=1 -run=TestPages ./hack/tutorial -args -update

.PHONY: new
new: ## Create your own controller: DIR=../db-controller MODULE=example.com/db-controller GROUP=db.example.com KIND=Database; UPDATE=1 updates DIR.
	@go -C hack/newcontroller build -o ../../$(BIN)/newcontroller .
	@$(BIN)/newcontroller -dir='$(DIR)' -module='$(MODULE)' -group='$(GROUP)' -kind='$(KIND)' -plural='$(PLURAL)' $(if $(FULL),-full) $(if $(UPDATE),-update)

.PHONY: test-new
test-new: cluster ## Create the README's controller and one with unusual names, run and test both, and follow docs/learn/extending.md and replace-the-deployment.md.
	go -C hack/doctest test -count=1 -timeout 1h -run TestExercises .
	go -C hack/newcontroller test -count=1 -timeout 1h ./...

.PHONY: simulation
simulation: ## Copy the simulation into the module of your own controller, DIR=../your-operator, with a test to complete; again to update it.
	@go -C hack/newcontroller build -o ../../$(BIN)/copysimulation ./copysimulation
	@$(BIN)/copysimulation -dir='$(DIR)'

.PHONY: test-zoo
test-zoo: ## Walk with public bugs of other controllers until each is noticed, with mended ones, and with hack/bench/controllerruntime.
	go -C hack/simulation/zoo test -count=1 -timeout 1h ./...
	go -C hack/bench test -count=1 -timeout 1h ./controllerruntime

MODULES += hack/bench hack/newcontroller hack/simulation/zoo
# new: end

.PHONY: clean
clean: ## Remove all build output.
	rm -rf .build dist sample-controller
