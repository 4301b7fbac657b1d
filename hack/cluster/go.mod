// The local Kubernetes for development and tests. It uses the standard library only, so that importing it adds no
// dependencies. The control plane itself is built from the module in controlplane/.
module k8s.io/sample-controller/hack/cluster

go 1.26.0
