package mpilib

import (
	"path"
	"strings"
)

const ncclName = "libnccl.so.2"

// ncclFile notes the version of a libnccl that the loader finds, which is in the name that libnccl.so.2 is a link to:
// libnccl.so.2.20.5, as NVIDIA's packages and containers have it. The first one that is found counts.
func (k *look) ncclFile(p string) {
	if v, ok := strings.CutPrefix(path.Base(k.files.real(p)), "libnccl.so."); ok && k.nccl == "" && wholeVersion().MatchString(v) {
		k.nccl = v
	}
}

// ncclWheel notes the version of the package that PyTorch and JAX bring, by the directory of its metadata:
// nvidia_nccl_cu12-2.20.5.dist-info. Its libnccl.so.2 is a file.
func (k *look) ncclWheel(site string) {
	for _, dir := range k.files.match(site, "nvidia_nccl_cu*.dist-info") {
		_, v, _ := strings.Cut(strings.TrimSuffix(path.Base(dir), ".dist-info"), "-")
		if k.nccl == "" && wholeVersion().MatchString(v) {
			k.nccl = v
		}
	}
}

// ncclVersion is that of a command's NCCL: what its libraries need, else its Python's package, else what the loader would
// give to a plugin.
func (k *look) ncclVersion(c command) string {
	for _, dir := range strings.Split(c.Env.Get("LD_LIBRARY_PATH"), ":") {
		if k.nccl == "" && dir != "" {
			if p := path.Join(absolute(c.Dir, dir), ncclName); k.files.stat(p).regular() {
				k.ncclFile(p)
			}
		}
	}
	for _, p := range k.ldCache().find(ncclName) {
		if k.nccl == "" && k.files.stat(p).regular() {
			k.ncclFile(p)
		}
	}
	return k.nccl
}
