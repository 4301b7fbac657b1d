# Copyright The sample-controller authors.
# SPDX-License-Identifier: Apache-2.0

# What is only for learning. The paths are relative to the root of the repository.

MODULES += hack/learn/lab/pagetest hack/learn/lab/site hack/learn/tutorial/controllerruntime hack/learn/variants hack/learn/zoo
check: test-lab test-variants

.PHONY: lab
lab: build-lab ## Watch the controller at work, and break it, on a page in the browser, without a cluster.
	@$(BIN)/lab

.PHONY: build-lab
build-lab:
	@go -C hack/learn/lab/site build -o ../../../../$(BIN)/lab .

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
	go test $(RACE) ./hack/learn/lab
	go -C hack/learn/lab/site test -count=1 ./...
	go -C hack/learn/lab/pagetest test -count=1 -run '$(WITHOUT_BROWSER)' .

.PHONY: test-lab-page
test-lab-page: build-lab ## Test the page of the lab in a browser: Chromium.
	go -C hack/learn/lab/pagetest test -count=1 -timeout 1h -skip '$(WITHOUT_BROWSER)' ./...

.PHONY: exercise
exercise: ## Give exercise N=5 of docs/learn/exercises.md, in .build/exercise/5 or DIR, and check it; HINT=1 or SOLUTION=1 helps.
	@go -C hack/learn/variants run ./exercise -root=../../.. -n='$(N)' -dir='$(if $(DIR),$(abspath $(DIR)))' $(if $(HINT),-hint) $(if $(SOLUTION),-solution)

.PHONY: exercises-docs
exercises-docs: ## Write the variants of the controller to docs/learn/exercises.md.
	go -C hack/learn/variants test -count=1 -run=TestMarkdownIsUpToDate . -args -update

.PHONY: test-variants
test-variants: ## Test that each variant of the controller, which lacks one thing that it does, is caught by a test.
	go -C hack/learn/variants test -count=1 -timeout 1h ./...

.PHONY: mutants
mutants: ## Try N=30 mutants, the controller with one line changed, and show which the walks notice: about a minute each.
	@go -C hack/learn/variants run ./mutants -root=../../.. -n=$(or $(N),30) -seed=$(or $(SEED),1) -walks=$(or $(WALKS),100)

# The main.go of DIR and the rest of the stage are copied to .build/stage. The replace directive of a go.mod is adjusted to that depth.
STAGE = hack/learn/tutorial/$(if $(filter controller-runtime,$(N)),controllerruntime,stage$(N))

.PHONY: stage
stage: ## Run the lessons of stage N=3 of the tutorial, or N=controller-runtime, and that of the next stage if there is one; with DIR=mine your own code for that stage.
	@test -f $(STAGE)/main.go || { echo "N must be the number of a stage, from 1 to 9, or controller-runtime."; exit 2; }
	@test -f $(or $(DIR),$(STAGE))/main.go || { echo "There is no $(DIR)/main.go: DIR is the directory with your main.go."; exit 2; }
	@rm -rf .build/stage && mkdir -p .build/stage && cp $(or $(DIR),$(STAGE))/main.go $(STAGE)/main_test.go .build/stage
	@test ! -f $(STAGE)/go.mod || { cp $(STAGE)/go.sum .build/stage && sed 's|=> [./]*|=> ../..|' $(STAGE)/go.mod > .build/stage/go.mod; }
	@go -C .build/stage test -count=1 -timeout=1m -v -run=TestStage . > .build/stage/output 2>&1; status=$$?; \
	  grep -v '^=== \|^[IEW][0-9]' .build/stage/output; \
	  test $$status = 0 || echo 'What your program has logged is in .build/stage/output.'; exit $$status

.PHONY: tutorial-docs
tutorial-docs: ## Write the stories of the tutorial to docs/learn/tutorial, and the differences between its stages.
	go test -count=1 ./hack/learn/tutorial/stage... -args -stories=$(CURDIR)/hack/learn/tutorial/stories
	go test -count=1 -run=TestPages ./hack/learn/tutorial -args -update

.PHONY: test-zoo
test-zoo: ## Walk with public bugs of other controllers until each is noticed, with mended ones, and with the two controllers that use controller-runtime.
	go -C hack/learn/zoo test -count=1 -timeout 1h ./...
	go -C hack/learn/tutorial/controllerruntime test -count=1 -timeout 1h .
	go -C hack/check/bench test -count=1 -timeout 1h ./controllerruntime
