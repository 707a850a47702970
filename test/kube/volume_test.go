package kube_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/mpiup/mpiup/test/credential"
)

// volume is a Secret's or ConfigMap's mount.
type volume struct {
	at    string // mount point
	gid   int    // fsGroup; 0: root's
	plain bool   // a subPath mount: files without the ..data links
	files []file
}

type file struct {
	name string
	text []byte
	mode os.FileMode
}

// source writes what kubelet would put into the volume (AtomicWriter in k8s.io/kubernetes
// pkg/volume/util/atomic_writer.go): a directory named by time, ..data pointing to it, and a
// link for each file through ..data.
func (c *cluster) source(v volume) string {
	c.t.Helper()
	c.mu.Lock()
	c.volumes++
	dir := filepath.Join(c.dir, fmt.Sprint(c.volumes))
	c.mu.Unlock()
	data := dir
	if !v.plain {
		data = filepath.Join(dir, "..2026_11_20_08_00_00.123456789")
	}
	must(c.t, os.MkdirAll(data, 0o755))
	for _, f := range v.files {
		path := filepath.Join(data, f.name)
		must(c.t, os.WriteFile(path, f.text, f.mode))
		must(c.t, os.Chmod(path, f.mode))
		must(c.t, os.Chown(path, 0, v.gid))
		if !v.plain {
			must(c.t, os.Symlink(filepath.Join("..data", f.name), filepath.Join(dir, f.name)))
		}
	}
	if !v.plain {
		must(c.t, os.Symlink(filepath.Base(data), filepath.Join(dir, "..data")))
	}
	return dir
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// keyPair is a job's SSH secret.
type keyPair struct{ private, public []byte }

func operatorKey() (k keyPair) {
	k.private, k.public = credential.Operator()
	return k
}

func volcanoKey() (k keyPair) {
	k.private, k.public = credential.Volcano()
	return k
}

// sshAuth is MPI Operator's volume ssh-auth: the default mode for a path is 0600 only at
// /root/.ssh (setupSSHOnPod).
func (k keyPair) sshAuth(at string) volume {
	mode := os.FileMode(0o644)
	if at == "/root/.ssh" {
		mode = 0o600
	}
	return volume{at: at, files: []file{{"id_rsa", k.private, mode}, {"id_rsa.pub", k.public, mode}, {"authorized_keys", k.public, mode}}}
}
