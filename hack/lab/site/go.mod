// Builds the lab, and serves it.
module k8s.io/sample-controller/hack/lab/site

go 1.26.0

require k8s.io/sample-controller/hack/variants v0.0.0

replace k8s.io/sample-controller/hack/variants => ../../variants
