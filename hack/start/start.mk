# Copyright The sample-controller authors.
# SPDX-License-Identifier: Apache-2.0

# What starts another controller from this one. The paths are relative to the root of the repository.

MODULES += hack/start/newcontroller

.PHONY: new
new: ## Create your own controller: DIR=../db-controller MODULE=example.com/db-controller GROUP=db.example.com KIND=Database; UPDATE=1 updates DIR.
	@go -C hack/start/newcontroller build -o ../../../$(BIN)/newcontroller .
	@$(BIN)/newcontroller -dir='$(DIR)' -module='$(MODULE)' -group='$(GROUP)' -kind='$(KIND)' -plural='$(PLURAL)' $(if $(UPDATE),-update)

.PHONY: follow
follow: ## Make the changes of a page in a controller that make new has created: DIR=../db-controller PAGE=docs/learn/replace-the-deployment.md.
	@go -C hack/start/newcontroller build -o ../../../$(BIN)/newcontroller .
	@$(BIN)/newcontroller -follow -dir='$(DIR)' -page='$(PAGE)'

.PHONY: test-new
test-new: cluster ## Create the README's controller and one with unusual names, run and test them, update one, and follow the exercises of docs/learn.
	go -C hack/check/doctest test -count=1 -timeout 1h -run TestExercises .
	go -C hack/start/newcontroller test -count=1 -timeout 1h ./...

.PHONY: simulation
simulation: ## Copy the simulation into the module of your own controller, DIR=../your-operator, with a test to complete; again to update it.
	@go -C hack/start/newcontroller build -o ../../../$(BIN)/copysimulation ./copysimulation
	@$(BIN)/copysimulation -dir='$(DIR)'
