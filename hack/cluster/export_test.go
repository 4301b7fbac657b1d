// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

var ModuleFile = moduleFile
