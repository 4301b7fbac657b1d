// Checks of the documentation, in a module of its own to keep them out of the controller's.
module k8s.io/sample-controller/hack/check/doctest

go 1.26.0

replace k8s.io/sample-controller/hack/learn/variants => ../../learn/variants

require k8s.io/sample-controller/hack/learn/variants v0.0.0-00010101000000-000000000000

replace k8s.io/sample-controller/hack/cluster => ../../cluster

require k8s.io/sample-controller/hack/cluster v0.0.0-00010101000000-000000000000

require github.com/yuin/goldmark v1.8.7
