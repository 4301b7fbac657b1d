#!/usr/bin/env bash
# Copyright The sample-controller authors.
# SPDX-License-Identifier: Apache-2.0
#
# The demo of `make run`, in the cluster of KUBECONFIG: installs the CRD, starts the controller, applies the example Foo,
# shows the result, and keeps the controller running until it is interrupted. With CLUSTER=current it asks for confirmation
# first (unless YES=1), because the cluster is the user's own, and finally deletes what it has applied.
set -o errexit -o nounset -o pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

crd=foos.samplecontroller.k8s.io
controller=

# show COMMAND...: prints and runs a command.
show() {
  printf '\n$ %s\n' "$*"
  "$@"
}

fail() {
  echo "hack/run.sh: $*" >&2
  exit 1
}

# use_current_context sets KUBECONFIG to a copy of the current context, which stays the same if the user changes contexts.
use_current_context() {
  command -v kubectl > /dev/null || fail 'CLUSTER=current requires kubectl'
  local config
  config=$(kubectl config view --minify --flatten --raw) || fail 'kubectl has no usable current context'
  tmp=$(mktemp -d)
  trap clean_up EXIT
  export KUBECONFIG="${tmp}/kubeconfig" KUBECACHEDIR="${tmp}/cache"
  (umask 077 && printf '%s\n' "${config}" > "${KUBECONFIG}")

  local namespace
  namespace=$(kubectl config view -o jsonpath='{.contexts[0].context.namespace}')
  echo "Context:   $(kubectl config current-context)"
  echo "Server:    $(kubectl config view -o jsonpath='{.clusters[0].cluster.server}')"
  echo "Namespace: ${namespace:-default}"
  confirm
  if [[ -n $(kubectl get crd "${crd}" --ignore-not-found -o name) ]]; then
    crd_exists=true
    [[ -z $(kubectl get foo/example-foo --ignore-not-found -o name) ]] || fail 'foo/example-foo already exists; delete it first'
  fi
}

confirm() {
  [[ ${YES:-} != 1 ]] || return 0
  [[ -t 0 ]] || fail 'cannot ask for confirmation without a terminal; set YES=1 to run in this cluster'
  local answer
  read -r -p 'Run the controller and the example Foo in this cluster? [y/N] ' answer
  [[ ${answer} == [yY] ]] || fail 'not confirmed'
}

# clean_up deletes what was applied. The Deployments are deleted with their Foos: garbage collection in the background could
# not do it without the CRD.
clean_up() {
  trap '' INT TERM
  if [[ -n ${controller} ]]; then
    kill "${controller}" 2> /dev/null && wait "${controller}" || :
    if [[ ${crd_exists} == true ]]; then
      show kubectl delete foo/example-foo --ignore-not-found --cascade=foreground --timeout=90s || :
    else
      show kubectl delete foos --all --all-namespaces --cascade=foreground --timeout=90s || :
    fi
  fi
  if [[ ${crd_applied} == true ]]; then
    show kubectl delete crd "${crd}" --ignore-not-found --timeout=90s || :
  fi
  rm -rf "${tmp}"
}

crd_exists=false
crd_applied=false
case ${CLUSTER:-} in
  '') ;;
  current) use_current_context ;;
  *) fail "CLUSTER must be empty or \"current\", not \"${CLUSTER}\"" ;;
esac

if [[ ${crd_exists} == true ]]; then
  printf '\nThe CRD is installed already and is not changed; update it with: make install\n'
else
  crd_applied=true
  show kubectl apply -f artifacts/examples/crd.yaml
fi
kubectl wait --for=condition=Established --timeout=30s "crd/${crd}" > /dev/null

program=sample-controller
[[ ${WITH:-} != controller-runtime ]] || program=controllerruntime # See hack/check/check.mk.
printf '\n$ ./%s -kubeconfig=%s -vmodule=owned=2\n' "${program}" "${KUBECONFIG}"
.build/bin/"${program}" -kubeconfig="${KUBECONFIG}" -vmodule=owned=2 &
controller=$!
trap : INT TERM # The controller receives the signal too; wait for it to shut down.

show kubectl apply -f artifacts/examples/example-foo.yaml
show kubectl wait --for=condition=Ready --timeout=60s foo/example-foo || { kill -0 "${controller}" || wait "${controller}"; exit 1; }
show kubectl get foos,deployments,pods
printf '\n$ kubectl get foo example-foo -o yaml    # its status\n'
kubectl get foo example-foo -o yaml | sed -n '/^status:/,$p'

if [[ ${CLUSTER:-} == current ]]; then
  printf '\nThe controller is running. Try this in another terminal:\n\n'
else
  cat <<EOF

The controller and a local Kubernetes are running; the Pods are simulated by kwok. Try this in another terminal:

  export KUBECONFIG="${KUBECONFIG}" KUBECACHEDIR="${KUBECACHEDIR:-}" PATH="$(dirname "$(command -v kubectl)"):\$PATH"
EOF
fi
cat <<EOF
  kubectl scale foo/example-foo --replicas=3
  kubectl get foos --watch

Press Ctrl-C here to stop and remove everything.
EOF

# A signal interrupts the first wait; the second one waits for the controller to shut down.
wait "${controller}" || wait "${controller}"
