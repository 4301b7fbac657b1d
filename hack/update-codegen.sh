#!/usr/bin/env bash
# Copyright The sample-controller authors.
# SPDX-License-Identifier: Apache-2.0
#
# Regenerates everything that is made from the types in pkg/apis: deep copies and registration beside the types, apply
# configurations, clientset, listers and informers in pkg/generated, and artifacts/examples/crd.yaml. Needs Go alone: the
# generators are pinned in go.mod and hack/tools/go.mod, and `go tool` builds them.
set -o errexit -o nounset -o pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

module=$(go list -m)
apis=pkg/apis
group_versions=(samplecontroller/v1alpha1)
out=pkg/generated
# The plurals of the kinds, as in their markers: the generators would guess them.
plurals=Foo:Foos

types=()
for gv in "${group_versions[@]}"; do types+=("./${apis}/${gv}"); done

# A vendor folder or a workspace around this repository must not choose other versions than go.mod does.
export GOWORK=off GOFLAGS=-mod=readonly

# generate NAME FLAG...: runs one of Kubernetes' generators, with the header that all generated Go files carry.
generate() {
  local generator=$1
  shift
  echo "${generator}" >&2
  go tool "${generator}" --go-header-file hack/boilerplate.go.txt "$@"
}

# controller_gen GENERATOR...: runs controller-gen. Of the two generators of apply configurations it is the one that gives
# them a schema, without which the fake clientset cannot apply.
controller_gen() {
  echo "controller-gen ${1%%:*}" >&2
  go tool -modfile=hack/tools/go.mod controller-gen "$@" paths="./${apis}/..."
}

# The type-checking generators need the package of the types to compile, so the files beside the types come first.
generate deepcopy-gen --output-file zz_generated.deepcopy.go "${types[@]}"
generate register-gen --output-file zz_generated.register.go "${types[@]}"

rm -rf "${out}"
controller_gen applyconfiguration:headerFile=hack/boilerplate.go.txt,omitToolVersion=true
generate client-gen --clientset-name versioned --input-base "${module}/${apis}" "${group_versions[@]/#/--input=}" \
  --apply-configuration-package "${module}/${out}/applyconfiguration" \
  --plural-exceptions "${plurals}" --output-dir "${out}/clientset" --output-pkg "${module}/${out}/clientset"
generate lister-gen --plural-exceptions "${plurals}" --output-dir "${out}/listers" --output-pkg "${module}/${out}/listers" "${types[@]}"
generate informer-gen --versioned-clientset-package "${module}/${out}/clientset/versioned" \
  --listers-package "${module}/${out}/listers" --plural-exceptions "${plurals}" \
  --output-dir "${out}/informers" --output-pkg "${module}/${out}/informers" "${types[@]}"

# The description of conditions is apimachinery's. It gives an example of a domain that users would take for one of ours.
controller_gen crd:headerFile=hack/boilerplate.yaml.txt output:crd:stdout |
  sed 's|[a-z]*\.example\.com/CamelCase|example.com/CamelCase|' > artifacts/examples/crd.yaml
