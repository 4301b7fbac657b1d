#!/usr/bin/env bash
# Copyright The sample-controller authors.
# SPDX-License-Identifier: Apache-2.0
#
# Fails if anything that hack/update-codegen.sh makes is not up to date. It regenerates a copy and compares, so that the
# working tree is left alone.
set -o errexit -o nounset -o pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

mkdir -p .build
copy=$(mktemp -d .build/verify-codegen.XXXXXX)
trap 'rm -rf "${copy}"' EXIT

mkdir "${copy}/hack"
cp -R go.mod go.sum pkg artifacts "${copy}"
cp -R hack/update-codegen.sh hack/boilerplate.go.txt hack/boilerplate.yaml.txt hack/tools "${copy}/hack"
"${copy}/hack/update-codegen.sh" 2> "${copy}/log" || { cat "${copy}/log" >&2; exit 1; }

status=0
diff -Naur pkg "${copy}/pkg" || status=$?
diff -Naur artifacts "${copy}/artifacts" || status=$?
if [[ ${status} -ne 0 ]]; then
  echo "Generated files are not up to date, as shown above. Run: make generate" >&2
  exit 1
fi
echo "Generated files are up to date."
