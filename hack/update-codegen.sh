#!/usr/bin/env bash
# Copyright The sample-controller authors.
# SPDX-License-Identifier: Apache-2.0
#
# Generates everything that is derived from the types in pkg/apis: the deepcopy and register functions and the names of the
# OpenAPI definitions next to the types, the OpenAPI definitions, apply configurations, clientset, listers and informers in
# pkg/generated, and artifacts/examples/crd.yaml with its copy in the Helm chart. Needs only Go: `go tool` builds the
# generators, which are pinned in go.mod and hack/tools/go.mod. It generates into a copy, and replaces the files only when
# all of them are complete.
set -o errexit -o nounset -o pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# Use the versions in go.mod, regardless of a vendor directory or a workspace. GOFLAGS is not empty, because go would use
# what go env -w has set.
export GOWORK=off GOFLAGS=-mod=readonly

module=$(go list -m)
apis=pkg/apis
group_versions=(samplecontroller/v1alpha1)
out=pkg/generated
# Must match the resource markers, which code-generator does not read.
plurals=Foo:Foos

types=()
for gv in "${group_versions[@]}"; do types+=("./${apis}/${gv}"); done

mkdir -p .build
copy=$(mktemp -d "${PWD}/.build/update-codegen.XXXXXX")
trap 'rm -rf "${copy}"' EXIT
mkdir "${copy}/hack"
cp -R go.mod go.sum pkg "${copy}"
cp -R hack/boilerplate.go.txt hack/boilerplate.yaml.txt hack/models-schema hack/tools "${copy}/hack"
rm -rf "${copy:?}/${out}"
root=${PWD}
cd "${copy}"

# generate NAME FLAG...: runs a generator of k8s.io/code-generator.
generate() {
  local generator=$1
  shift
  echo "${generator}" >&2
  go tool "${generator}" --go-header-file hack/boilerplate.go.txt "$@"
}

# controller_gen GENERATOR...: runs controller-gen.
controller_gen() {
  echo "controller-gen ${1%%:*}" >&2
  go tool -modfile=hack/tools/go.mod controller-gen "$@"
}

# openapi: generates the OpenAPI definitions of the types, and the names of the definitions, which are methods of the types. The definitions
# refer to those of the Kubernetes packages that the types import, which have such methods already.
openapi() {
  local imports package inputs=("${types[@]}")
  imports=$(go list -deps "${types[@]}" | grep -E '^k8s\.io/(api|apimachinery)/')
  # API servers also describe their version.
  for package in ${imports} k8s.io/apimachinery/pkg/version; do inputs+=(--readonly-pkg "${package}" "${package}"); done
  generate openapi-gen --output-file zz_generated.openapi.go --output-model-name-file zz_generated.model_name.go \
    --report-filename /dev/null --output-dir "${out}/openapi" --output-pkg "${module}/${out}/openapi" "${inputs[@]}"
}

# First, because the generators below type-check the API package.
generate deepcopy-gen --output-file zz_generated.deepcopy.go "${types[@]}"
generate register-gen --output-file zz_generated.register.go "${types[@]}"

openapi
go run ./hack/models-schema > models-schema.json
generate applyconfiguration-gen --openapi-schema models-schema.json \
  --output-dir "${out}/applyconfiguration" --output-pkg "${module}/${out}/applyconfiguration" "${types[@]}"
generate client-gen --clientset-name versioned --input-base "${module}/${apis}" "${group_versions[@]/#/--input=}" \
  --apply-configuration-package "${module}/${out}/applyconfiguration" \
  --plural-exceptions "${plurals}" --output-dir "${out}/clientset" --output-pkg "${module}/${out}/clientset"
generate lister-gen --plural-exceptions "${plurals}" --output-dir "${out}/listers" --output-pkg "${module}/${out}/listers" "${types[@]}"
generate informer-gen --versioned-clientset-package "${module}/${out}/clientset/versioned" \
  --listers-package "${module}/${out}/listers" --plural-exceptions "${plurals}" \
  --output-dir "${out}/informers" --output-pkg "${module}/${out}/informers" "${types[@]}"

# The example domain in apimachinery's description of a condition type looks as if it belonged to this API.
controller_gen crd:headerFile=hack/boilerplate.yaml.txt output:crd:stdout paths="./${apis}/..." |
  sed 's|[a-z]*\.example\.com/CamelCase|example.com/CamelCase|' > crd.yaml

cd "${root}"
for gv in "${group_versions[@]}"; do cp "${copy}/${apis}/${gv}"/zz_generated.*.go "${apis}/${gv}"; done
rm -rf "${out}"
mv "${copy}/${out}" "${out}"
mkdir -p artifacts/examples artifacts/chart/crds
cp "${copy}/crd.yaml" artifacts/examples
cp "${copy}/crd.yaml" artifacts/chart/crds
