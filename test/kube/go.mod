// Tests of the binary against Kubernetes' own code; a module of its own, so that mpiup's module
// does not require what only these tests need.
module github.com/mpiup/mpiup/test/kube

go 1.26.0

require (
	github.com/mpiup/mpiup v0.0.0
	go.uber.org/goleak v1.3.0
	go.yaml.in/yaml/v3 v3.0.5
	golang.org/x/crypto v0.58.0
)

require (
	github.com/miekg/dns v1.1.73 // indirect
	golang.org/x/net v0.61.0 // indirect
	golang.org/x/sync v0.24.0 // indirect
	golang.org/x/sys v0.49.0 // indirect
)

replace github.com/mpiup/mpiup => ../..
