// Package contract runs jobs as users have them: manifests, our examples' and the upstream projects'
// own, go through the operators' own code (test/kube/control) and the pods that come out of it run
// on hosts (test/kube/kubelet). The tests are the acceptance list of what mpiup promises to fit in a
// cluster.
//
//	manifest ─▶ operator's controller ─▶ Job controller ─▶ kubelet ─▶ hosts: mpiup agent, mpiup run
//
// Nothing of a manifest is changed but what a test's name says: images are looked up by their names,
// in [Images], and a command where the tier is about commands.
//
// MPI programs are built with Debian's Open MPI 4.1 and MPICH, which stands for Intel MPI, too. Upstream's pi
// examples run with Open MPI 5 besides and, by make kube-intel, with Intel MPI itself, both from Python's
// packages (test/wheels.sh), and every rank says which library it has.
//
// Upstream's manifests are read from the modules' zips in Go's module cache and never kept here.
// Versions are those of go.mod.
//
// A second of a manifest takes 20 ms here (periods, back-off), so "minutes" are seconds.
package contract
