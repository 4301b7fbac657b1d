#!/usr/bin/env bash
# Copyright The sample-controller authors.
# SPDX-License-Identifier: Apache-2.0
#
# The demo of `make run`, in the cluster of KUBECONFIG: installs the CRD, starts the controller, applies the example Foo,
# shows the result, and keeps the controller running until it is interrupted.
set -o errexit -o nounset -o pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# show COMMAND...: prints and runs a command.
show() {
  printf '\n$ %s\n' "$*"
  "$@"
}

show kubectl apply -f artifacts/examples/crd.yaml
kubectl wait --for=condition=Established --timeout=30s crd/foos.samplecontroller.k8s.io > /dev/null

printf '\n$ ./sample-controller -kubeconfig=%s -vmodule=controller=2\n' "${KUBECONFIG}"
.build/bin/sample-controller -kubeconfig="${KUBECONFIG}" -vmodule=controller=2 &
controller=$!
trap : INT TERM # The controller receives the signal too; wait for it to shut down.

show kubectl apply -f artifacts/examples/example-foo.yaml
show kubectl wait --for=condition=Ready --timeout=60s foo/example-foo || { kill -0 "${controller}" || wait "${controller}"; exit 1; }
show kubectl get foos,deployments,pods
printf '\n$ kubectl get foo example-foo -o yaml    # its status\n'
kubectl get foo example-foo -o yaml | sed -n '/^status:/,$p'

cat <<EOF

The controller and a local Kubernetes are running; the Pods are simulated by kwok. Try this in another terminal:

  export KUBECONFIG="${KUBECONFIG}" KUBECACHEDIR="${KUBECACHEDIR:-}" PATH="${PWD}/.build/bin:\$PATH"
  kubectl scale foo/example-foo --replicas=3
  kubectl get foos --watch

Press Ctrl-C here to stop and remove everything.
EOF

# A signal interrupts the first wait; the second one waits for the controller to shut down.
wait "${controller}" || wait "${controller}"
