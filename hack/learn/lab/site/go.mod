// Builds the lab, and serves it.
module k8s.io/sample-controller/hack/learn/lab/site

go 1.26.0

require k8s.io/sample-controller/hack/learn/variants v0.0.0

require github.com/yuin/goldmark v1.8.7

require github.com/klauspost/compress v1.20.4

replace k8s.io/sample-controller/hack/learn/variants => ../../variants
