#!/usr/bin/env bash
# Copyright The sample-controller authors.
# SPDX-License-Identifier: Apache-2.0
#
# Fails if the output of hack/update-codegen.sh is not up to date. Generates into a copy, so that the working tree is not
# changed.
set -o errexit -o nounset -o pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

mkdir -p .build
copy=$(mktemp -d .build/verify-codegen.XXXXXX)
trap 'rm -rf "${copy}"' EXIT

mkdir "${copy}/hack"
cp -R go.mod go.sum pkg artifacts "${copy}"
cp -R hack/update-codegen.sh hack/boilerplate.go.txt hack/boilerplate.yaml.txt hack/models-schema hack/tools "${copy}/hack"
"${copy}/hack/update-codegen.sh" 2> "${copy}/log" || { cat "${copy}/log" >&2; exit 1; }

status=0
diff -Naur pkg "${copy}/pkg" || status=$?
diff -Naur artifacts "${copy}/artifacts" || status=$?
if [[ ${status} -ne 0 ]]; then
  echo "Generated files are out of date (see the diff above). Run: make generate" >&2
  exit 1
fi
echo "Generated files are up to date."
