package mpilib

import (
	"path"
	"strings"

	"github.com/mpiup/mpiup/agent/mpilib/script"
)

const ncclName = "libnccl.so.2"

// nccl is the version of a command's libnccl, "" while none was found.
type nccl string

// file notes the version of a libnccl that the loader finds. In NVIDIA's packages and containers libnccl.so.2 is a
// link whose target has it in its name: libnccl.so.2.20.5. The first one that is found counts.
func (n *nccl) file(fs *files, p string) {
	if v, ok := strings.CutPrefix(path.Base(fs.real(p)), "libnccl.so."); ok && *n == "" && wholeVersion().MatchString(v) {
		*n = nccl(v)
	}
}

// wheel notes the version of the package that PyTorch and JAX bring, by the directory of its metadata:
// nvidia_nccl_cu12-2.20.5.dist-info. Its libnccl.so.2 is a file.
func (n *nccl) wheel(fs *files, site string) {
	for _, dir := range fs.match(site, "nvidia_nccl_cu*.dist-info") {
		_, v, _ := strings.Cut(strings.TrimSuffix(path.Base(dir), ".dist-info"), "-")
		if *n == "" && wholeVersion().MatchString(v) {
			*n = nccl(v)
		}
	}
}

// of is that of a command's NCCL: what its libraries need, else its Python's package, else what the loader would
// give to a plugin.
func (n *nccl) of(c command, fs *files, system ldCache) string {
	for _, dir := range strings.Split(c.Env.Get("LD_LIBRARY_PATH"), ":") {
		if *n == "" && dir != "" {
			if p := path.Join(script.Absolute(c.Dir, dir), ncclName); fs.stat(p).regular() {
				n.file(fs, p)
			}
		}
	}
	for _, p := range system.find(ncclName) {
		if *n == "" && fs.stat(p).regular() {
			n.file(fs, p)
		}
	}
	return string(*n)
}

// torchWheel notes the version of PyTorch by the directory of its package's metadata: torch-2.6.0a0+ecf3bae40a.nv25.1.dist-info.
func (k *look) torchWheel(site string) {
	for _, dir := range k.files.match(site, "torch-[0-9]*.dist-info") {
		if k.torch == "" {
			k.torch = strings.TrimSuffix(strings.TrimPrefix(path.Base(dir), "torch-"), ".dist-info")
		}
	}
}
