// Variants of the controller that show what its lines are for.
module k8s.io/sample-controller/hack/learn/variants

go 1.26.0
