// The local Kubernetes for development and tests. Standard library only, so that a module which imports it gains no
// dependencies; the control plane itself is built from the module in controlplane/.
module k8s.io/sample-controller/hack/cluster

go 1.26.0
