#!/usr/bin/env bash
# Copyright The sample-controller authors.
# SPDX-License-Identifier: Apache-2.0
#
# Generates everything that is derived from the types in pkg/apis: the deepcopy and register functions next to the types,
# the apply configurations, clientset, listers and informers in pkg/generated, and artifacts/examples/crd.yaml with its copy
# in the Helm chart. Needs only Go: `go tool` builds the generators, which are pinned in go.mod and hack/tools/go.mod. It
# generates into a copy, and replaces the files only when all of them are complete.
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
cp -R hack/boilerplate.go.txt hack/boilerplate.yaml.txt hack/tools "${copy}/hack"
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

# apply_configurations DIR: generates the apply configurations. Those of applyconfiguration-gen have no schema, which the fake clientset
# needs for apply, so only utils.go is from it. All else is from controller-gen, which overwrites the schema of one version with that of
# the next: they are merged here.
apply_configurations() {
  local dir=$1 type
  for type in "${types[@]}"; do
    controller_gen applyconfiguration:headerFile=hack/boilerplate.go.txt,omitToolVersion=true paths="${type}"
    cat "${dir}/internal/internal.go" >> "${dir}/schemas"
  done
  awk '/^- name: / { skip = seen[$0]++ } /^`\)$/ { skip = 1 } !skip; END { print "`)" }' "${dir}/schemas" > "${dir}/internal/internal.go"
  generate applyconfiguration-gen --output-dir "${dir}/all" --output-pkg "${module}/${dir}" "${types[@]}"
  mv "${dir}/all/utils.go" "${dir}"
  rm -r "${dir}/all" "${dir}/schemas"
}

# First, because the generators below type-check the API package.
generate deepcopy-gen --output-file zz_generated.deepcopy.go "${types[@]}"
generate register-gen --output-file zz_generated.register.go "${types[@]}"

apply_configurations "${out}/applyconfiguration"
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
