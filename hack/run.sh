#!/usr/bin/env bash
# Copyright The sample-controller authors.
# SPDX-License-Identifier: Apache-2.0
#
# What `make run` does in the cluster that KUBECONFIG names: it makes Foos known, runs the controller, applies the example
# Foo, shows what comes of it, and then keeps the controller running until it is interrupted.
set -o errexit -o nounset -o pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# show COMMAND...: says what is run, as one would type it, and runs it.
show() {
  printf '\n$ %s\n' "$*"
  "$@"
}

show kubectl apply -f artifacts/examples/crd.yaml
kubectl wait --for=condition=Established --timeout=30s crd/foos.samplecontroller.k8s.io > /dev/null

printf '\n$ ./sample-controller -kubeconfig=%s -vmodule=controller=2\n' "${KUBECONFIG}"
.build/bin/sample-controller -kubeconfig="${KUBECONFIG}" -vmodule=controller=2 &
controller=$!
trap : INT TERM # The controller gets the signal too.

show kubectl apply -f artifacts/examples/example-foo.yaml
show kubectl wait --for=condition=Ready --timeout=60s foo/example-foo || { kill -0 "${controller}" || wait "${controller}"; exit 1; }
show kubectl get foos,deployments,pods
printf '\n$ kubectl get foo example-foo -o yaml    # its status\n'
kubectl get foo example-foo -o yaml | sed -n '/^status:/,$p'

cat <<EOF

The controller and a local Kubernetes are running. To look around, in another terminal:

  export KUBECONFIG="${KUBECONFIG}" KUBECACHEDIR="${KUBECACHEDIR:-}" PATH="${PWD}/.build/bin:\$PATH"
  kubectl scale foo/example-foo --replicas=3
  kubectl get foos --watch

Ctrl-C here ends all of it and leaves nothing behind.
EOF

# The first wait ends when a signal arrives, the second when the controller has finished its work.
wait "${controller}" || wait "${controller}"
