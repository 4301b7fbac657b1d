// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"testing"

	"k8s.io/sample-controller/hack/learn/tutorial"
)

func TestStage(t *testing.T) { tutorial.Test(t, 5, run) }
