package identity

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/mpiup/mpiup/test/cost"
	"github.com/mpiup/mpiup/test/credential"
	"github.com/mpiup/mpiup/test/need"
)

func TestMountInfo(t *testing.T) {
	got := parseMountInfo([]byte(strings.Join([]string{
		`22 27 0:21 / /proc rw,relatime - proc proc rw`,
		`2144 2117 0:137 / /root/.ssh ro,relatime master:9 propagate_from:2 - tmpfs tmpfs rw,size=65536k`,
		`2145 2117 0:138 /..2026/id_rsa /a\040b/\134x/id_rsa ro - tmpfs tmpfs rw`,
		`2146 2117 0:139 / /over rw - ext4 /dev/sda1 rw`,
		`2147 2117 0:140 / /over/ ro - tmpfs tmpfs rw`,
		`1 2 3`,
		`2148 2117 0:139 / relative rw - ext4 /dev/sda1 rw`,
		`2149 2117 0:139 / /no-dash rw ext4 /dev/sda1 rw rw`,
		`2150 2117 0:141 / /trailing\04 rw - fuse.sshfs h:/ rw`,
	}, "\n")))
	want := []mount{{"/proc", "proc"}, {"/root/.ssh", "tmpfs"}, {`/a b/\x/id_rsa`, "tmpfs"}, {"/over", "tmpfs"}, {`/trailing\04`, "fuse.sshfs"}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %q\nwant %q", got, want)
	}
	if want[0].secretVolume() || !want[1].secretVolume() || want[4].secretVolume() || (mount{"/", "tmpfs"}).secretVolume() {
		t.Error("wrong kinds of volumes are searched")
	}
}

func FuzzMountInfo(f *testing.F) {
	f.Add([]byte("2145 2117 0:138 /..2026/id_rsa /a\\040b/id_rsa ro master:1 - tmpfs tmpfs rw\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		defer cost.Watch(t, cost.Parser, len(data))()
		ms := parseMountInfo(data)
		if len(ms) > maxMounts {
			t.Errorf("%d mounts", len(ms))
		}
		seen := map[string]bool{}
		for _, m := range ms {
			if !filepath.IsAbs(m.point) || seen[m.point] {
				t.Errorf("mount point %q", m.point)
			}
			seen[m.point] = true
		}
	})
}

// fakePod is a root directory with mounts and files.
type fakePod struct {
	t    *testing.T
	root string
	env  map[string]string

	named []NamedKey
}

func newPod(t *testing.T) *fakePod {
	p := &fakePod{t: t, root: t.TempDir(), env: map[string]string{}}
	p.mount("/", "overlay")
	return p
}

func (p *fakePod) mount(point, fstype string) {
	p.t.Helper()
	file := filepath.Join(p.root, "proc/self/mountinfo")
	old, err := os.ReadFile(file)
	if err != nil && !os.IsNotExist(err) {
		p.t.Fatal(err)
	}
	write(p.t, file, fmt.Appendf(old, "1 2 0:3 / %s ro,relatime master:1 - %s none rw\n", strings.ReplaceAll(point, " ", `\040`), fstype))
}

func (p *fakePod) file(path string, data []byte) { p.t.Helper(); write(p.t, p.root+path, data) }

// kubelet writes files as the kubelet's atomic writer does: DIR/..2026/F, ..data → ..2026,
// F → ..data/F.
func (p *fakePod) kubelet(dir string, files map[string][]byte) {
	p.t.Helper()
	for name, data := range files {
		p.file(dir+"/..2026_11_20/"+name, data)
		p.link("..data/"+name, dir+"/"+name)
	}
	p.link("..2026_11_20", dir+"/..data")
}

func (p *fakePod) link(to, at string) {
	p.t.Helper()
	if err := os.Symlink(to, p.root+at); err != nil {
		p.t.Fatal(err)
	}
}

func (p *fakePod) find() (secret, error) {
	return findSecret(Options{Root: p.root, Env: func(n string) string { return p.env[n] }, Named: p.named})
}

func sshSecret(t testing.TB) map[string][]byte {
	private, authorized := credential.Operator()
	return map[string][]byte{"id_rsa": private, "id_rsa.pub": authorized, "authorized_keys": authorized}
}

func TestFindSecret(t *testing.T) {
	ours, other := sshSecret(t), sshSecret(t)
	for _, tt := range []struct {
		name    string
		pod     func(p *fakePod)
		from    string
		mounted bool
		err     string // part of it; "" with from "" is ErrNoSecret
	}{
		{name: "MPI Operator, root", from: "/root/.ssh/id_rsa", mounted: true, pod: func(p *fakePod) {
			p.mount("/root/.ssh", "tmpfs")
			p.kubelet("/root/.ssh", ours)
		}},
		{name: "MPI Operator, other user, HOME set", from: "/home/mpiuser/.ssh/id_rsa", mounted: true, pod: func(p *fakePod) {
			p.env["HOME"] = "/home/mpiuser"
			p.mount("/home/mpiuser/.ssh", "tmpfs")
			p.kubelet("/home/mpiuser/.ssh", ours)
		}},
		{name: "MPI Operator, uid without passwd entry", from: "/home/mpiuser/.ssh/id_rsa", mounted: true, pod: func(p *fakePod) {
			p.env["HOME"] = "/"
			p.mount("/home/mpiuser/.ssh", "tmpfs")
			p.kubelet("/home/mpiuser/.ssh", ours)
		}},
		{name: "a directory with a space", from: "/secret dir/id_rsa", mounted: true, pod: func(p *fakePod) {
			p.mount("/secret dir", "tmpfs")
			p.kubelet("/secret dir", ours)
		}},
		{name: "Volcano, each file mounted", from: "/root/.ssh/id_rsa", mounted: true, pod: func(p *fakePod) {
			for name, data := range ours {
				p.mount("/root/.ssh/"+name, "tmpfs")
				p.file("/root/.ssh/"+name, data)
			}
		}},
		{name: "Volcano, other path", from: "/opt/keys/id_rsa", mounted: true, pod: func(p *fakePod) {
			for name, data := range ours {
				p.mount("/opt/keys/"+name, "tmpfs")
				p.file("/opt/keys/"+name, data)
			}
		}},
		{name: "plain Secret", from: "/etc/mpiup/key", mounted: true, pod: func(p *fakePod) {
			p.mount("/etc/mpiup", "tmpfs")
			p.kubelet("/etc/mpiup", map[string][]byte{"key": []byte("0123456789abcdef")})
		}},
		{name: "plain Secret, any file name", from: "/etc/mpiup/secret.pem", mounted: true, pod: func(p *fakePod) {
			p.mount("/etc/mpiup", "tmpfs")
			p.kubelet("/etc/mpiup", map[string][]byte{"secret.pem": ours["id_rsa"]})
		}},
		{name: "plain Secret, mounted one deeper", from: "/etc/mpiup/key/x", mounted: true, pod: func(p *fakePod) {
			p.mount("/etc/mpiup/key", "tmpfs")
			p.kubelet("/etc/mpiup/key", map[string][]byte{"x": []byte("0123456789abcdef")})
		}},
		{name: "plain Secret beats the operator's", from: "/etc/mpiup/key", pod: func(p *fakePod) {
			p.mount("/root/.ssh", "tmpfs")
			p.kubelet("/root/.ssh", ours)
			p.file("/etc/mpiup/key", []byte("0123456789abcdef"))
		}},
		{name: "plain Secret, two files", err: "name the job's secret with --key", pod: func(p *fakePod) {
			p.file("/etc/mpiup/a", []byte("0123456789abcdef"))
			p.file("/etc/mpiup/b", []byte("0123456789abcdef"))
		}},
		{name: "certificates at the default place", err: "name it with --tls-dir", pod: func(p *fakePod) {
			for _, n := range []string{"tls.crt", "tls.key", "ca.crt"} {
				p.file("/etc/mpiup/"+n, []byte("x"))
			}
		}},
		{name: "HOME before the scan", from: "/home/u/.ssh/id_rsa", mounted: true, pod: func(p *fakePod) {
			p.env["HOME"] = "/home/u"
			p.mount("/a", "tmpfs")
			p.kubelet("/a", other)
			p.mount("/home/u/.ssh", "tmpfs")
			p.kubelet("/home/u/.ssh", ours)
		}},
		{name: "two keys", err: "two different keys are mounted, /a/id_rsa and /b/id_rsa", pod: func(p *fakePod) {
			p.mount("/b", "tmpfs")
			p.kubelet("/b", other)
			p.mount("/a", "tmpfs")
			p.kubelet("/a", ours)
		}},
		{name: "one key twice", from: "/a/id_rsa", mounted: true, pod: func(p *fakePod) {
			p.mount("/b", "tmpfs")
			p.kubelet("/b", ours)
			p.mount("/a", "tmpfs")
			p.kubelet("/a", ours)
		}},
		{name: "personal key on the root file system", pod: func(p *fakePod) {
			p.env["HOME"] = "/home/u"
			p.file("/home/u/.ssh/id_rsa", ours["id_rsa"])
			p.file("/home/u/.ssh/authorized_keys", ours["authorized_keys"])
		}},
		{name: "personal key on a home volume", pod: func(p *fakePod) {
			p.env["HOME"] = "/home/u"
			p.mount("/home", "ext4")
			p.mount("/home/u", "ext4")
			p.file("/home/u/.ssh/id_rsa", ours["id_rsa"])
			p.file("/home/u/.ssh/authorized_keys", ours["authorized_keys"])
		}},
		{name: "personal key, its directory mounted, without authorized_keys", pod: func(p *fakePod) {
			p.mount("/root/.ssh", "ext4")
			p.file("/root/.ssh/id_rsa", ours["id_rsa"])
		}},
		{name: "personal key, its directory mounted, others authorized", pod: func(p *fakePod) {
			p.mount("/root/.ssh", "ext4")
			p.file("/root/.ssh/id_rsa", ours["id_rsa"])
			p.file("/root/.ssh/authorized_keys", other["authorized_keys"])
		}},
		{name: "network volume is not touched", pod: func(p *fakePod) {
			p.mount("/data", "nfs4")
			p.kubelet("/data", ours)
		}},
		{name: "nothing", pod: func(*fakePod) {}},
		{name: "damaged operator key", err: "key /root/.ssh/id_rsa: it is damaged PEM", pod: func(p *fakePod) {
			p.mount("/root/.ssh", "tmpfs")
			p.file("/root/.ssh/id_rsa", ours["id_rsa"][:100])
			p.file("/root/.ssh/authorized_keys", ours["authorized_keys"])
		}},
		{name: "MPIUP_KEY takes a personal key", from: "MPIUP_KEY ", pod: func(p *fakePod) {
			p.file("/me/id_rsa", ours["id_rsa"])
			p.env["MPIUP_KEY"] = p.root + "/me/id_rsa"
		}},
		{name: "MPIUP_KEY names a directory", from: "MPIUP_KEY ", pod: func(p *fakePod) {
			p.file("/me/key", ours["id_rsa"])
			p.env["MPIUP_KEY"] = p.root + "/me"
		}},
		{name: "MPIUP_KEY names the mounted key", from: "MPIUP_KEY ", mounted: true, pod: func(p *fakePod) {
			p.kubelet("/etc/mpiup", map[string][]byte{"key": ours["id_rsa"]})
			p.mount("/etc/mpiup", "tmpfs")
			p.env["MPIUP_KEY"] = p.root + "/etc/mpiup/key"
		}},
		{name: "MPIUP_KEY names the directory of the mounted key", from: "MPIUP_KEY ", mounted: true, pod: func(p *fakePod) {
			p.file("/data/secrets/job/key", ours["id_rsa"])
			p.mount("/data", "ext4")
			p.env["MPIUP_KEY"] = p.root + "/data/secrets/job"
		}},
		{name: "MPIUP_KEY names a person's key on a volume of homes", from: "MPIUP_KEY ", pod: func(p *fakePod) {
			p.file("/home/me/key", ours["id_rsa"])
			p.mount("/home", "ext4")
			p.env["MPIUP_KEY"], p.env["HOME"] = p.root+"/home/me/key", "/home/me"
		}},
		{name: "MPIUP_KEY names nothing", err: "no such file", pod: func(p *fakePod) {
			p.env["MPIUP_KEY"] = p.root + "/none"
		}},
		{name: "ssh names a key", from: "/h/.ssh/id_rsa (-i)", pod: func(p *fakePod) {
			p.file("/h/.ssh/id_rsa", ours["id_rsa"])
			p.named = []NamedKey{{File: "/h/.ssh/none", From: "-i"}, {File: "/h/.ssh/id_rsa", From: "-i"}}
		}},
		{name: "ssh names a key and another is mounted", from: "/root/.ssh/id_rsa", mounted: true, pod: func(p *fakePod) {
			p.kubelet("/root/.ssh", ours)
			p.mount("/root/.ssh", "tmpfs")
			p.file("/h/id_rsa", other["id_rsa"])
			p.named = []NamedKey{{File: "/h/id_rsa", From: "-i"}}
		}},
		{name: "ssh names a key that cannot be read", err: "key /h/id: it is only 4 bytes", pod: func(p *fakePod) {
			p.file("/h/id", []byte("four"))
			p.named = []NamedKey{{File: "/h/id", From: "-i", Insist: true}}
		}},
		{name: "a configuration names a key that cannot be read", pod: func(p *fakePod) {
			p.file("/h/id", []byte("four"))
			p.named = []NamedKey{{File: "/h/id", From: "config"}}
		}},
		{name: "authorized", from: "/h/id_rsa (sshd)", pod: func(p *fakePod) {
			p.file("/h/id_rsa", ours["id_rsa"])
			p.file("/h/host", other["id_rsa"])
			p.file("/h/list", ours["authorized_keys"])
			p.named = []NamedKey{{File: "/h/host", From: "sshd", Authorized: "/h/list"}, {File: "/h/id_rsa", From: "sshd", Authorized: "/h/list"}}
		}},
		{name: "authorized for one command only", pod: func(p *fakePod) {
			p.file("/h/id_rsa", ours["id_rsa"])
			p.file("/h/list", append([]byte(`command="true" `), ours["authorized_keys"]...))
			p.named = []NamedKey{{File: "/h/id_rsa", From: "sshd", Authorized: "/h/list"}}
		}},
		{name: "no list of authorized keys", pod: func(p *fakePod) {
			p.file("/h/id_rsa", ours["id_rsa"])
			p.named = []NamedKey{{File: "/h/id_rsa", From: "sshd", Authorized: "/h/list"}}
		}},
		{name: "an opaque key is authorized nowhere", pod: func(p *fakePod) {
			p.file("/h/id_rsa", []byte("correct horse battery staple"))
			p.file("/h/list", []byte("\n"))
			p.named = []NamedKey{{File: "/h/id_rsa", From: "sshd", Authorized: "/h/list"}}
		}},
		{name: "two keys are authorized", err: "two different keys are authorized, /h/a (sshd) and /h/b (sshd)", pod: func(p *fakePod) {
			p.file("/h/a", ours["id_rsa"])
			p.file("/h/b", other["id_rsa"])
			p.file("/h/list", append(ours["authorized_keys"], other["authorized_keys"]...))
			p.named = []NamedKey{{File: "/h/a", From: "sshd", Authorized: "/h/list"}, {File: "/h/b", From: "sshd", Authorized: "/h/list"}}
		}},
		{name: "MPIUP_KEY names a pipe", err: "not a regular file", pod: func(p *fakePod) {
			p.env["MPIUP_KEY"] = p.root + "/fifo"
			if err := syscall.Mkfifo(p.root+"/fifo", 0o600); err != nil {
				p.t.Fatal(err)
			}
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := newPod(t)
			tt.pod(p)
			s, err := p.find()
			switch {
			case tt.err != "":
				if err == nil || errors.Is(err, ErrNoSecret) || !strings.Contains(err.Error(), tt.err) {
					t.Errorf("error %v, want %q", err, tt.err)
				}
			case tt.from == "":
				if !errors.Is(err, ErrNoSecret) {
					t.Errorf("found %q, error %v; want ErrNoSecret", s.from, err)
				}
			case err != nil || !strings.HasPrefix(s.from, tt.from) || s.mounted != tt.mounted:
				t.Errorf("found %q, mounted %v, error %v", s.from, s.mounted, err)
			}
		})
	}
}

func TestNoSecretSaysWhatToMount(t *testing.T) {
	p := newPod(t)
	_, err := p.find()
	for _, want := range []string{"--key FILE", "MPIUP_KEY", "mpiup keygen FILE", "--tls-dir"} {
		if !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "pod") || strings.Contains(err.Error(), "Operator") {
			t.Errorf("outside Kubernetes the error does not say %q, or speaks of pods: %v", want, err)
		}
	}
	p.env = map[string]string{"KUBERNETES_SERVICE_HOST": "10.96.0.1"}
	_, err = p.find()
	for _, want := range []string{"MPI Operator", "Trainer", "Volcano", "mpiup keygen", "/etc/mpiup", "--key", "/root/.ssh/id_rsa"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("error does not say %q: %v", want, err)
		}
	}
}

// A real tmpfs, real symbolic links and the kernel's own mountinfo.
func TestRealMount(t *testing.T) {
	need.Root(t)
	dir := t.TempDir() + "/a b"
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	need.Done(t, "mount", syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=64k"), "run where root may mount")
	defer func() {
		if err := syscall.Unmount(dir, 0); err != nil {
			t.Error(err)
		}
	}()
	(&fakePod{t: t}).kubelet(dir, sshSecret(t))
	o := Options{Root: "/", Env: func(string) string { return "" }}
	s, err := findSecret(o)
	if err != nil || s.from != dir+"/id_rsa" || !s.mounted {
		t.Errorf("found %q, %v", s.from, err)
	}
}

// A key that another user owns: the thread gives up root's access to files for a while.
func TestUnreadableKeySaysWhose(t *testing.T) {
	need.Root(t)
	ours := sshSecret(t)
	for _, tt := range []struct {
		name, want string
		dir, file  os.FileMode
	}{
		{"file mode 0600", "belongs to uid 0, gid 0, mode 0600", 0o755, 0o600},
		{"directory mode 0700", "in a directory that uid may not enter", 0o700, 0o600},
	} {
		t.Run(tt.name, func(t *testing.T) {
			root, err := os.MkdirTemp("/tmp", "identity") // t.TempDir is for its owner only
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { os.RemoveAll(root) })
			p := &fakePod{t: t, root: root}
			p.mount("/root/.ssh", "tmpfs")
			for n, data := range ours {
				p.file("/root/.ssh/"+n, data)
			}
			for path, mode := range map[string]os.FileMode{"/root/.ssh/id_rsa": tt.file, "/root/.ssh": tt.dir, "/proc/self/mountinfo": 0o644, "": 0o755} {
				if err := os.Chmod(root+path, mode); err != nil {
					t.Fatal(err)
				}
			}
			runtime.LockOSThread()
			if err := syscall.Setfsuid(65534); err != nil {
				t.Fatal(err)
			}
			_, err = p.find()
			if err := syscall.Setfsuid(0); err != nil {
				t.Fatal(err)
			}
			runtime.UnlockOSThread()
			if err == nil || errors.Is(err, ErrNoSecret) {
				t.Fatalf("error %v", err)
			}
			for _, want := range []string{"key /root/.ssh/id_rsa cannot be read by uid", tt.want} {
				if !strings.Contains(err.Error(), want) || !errors.Is(err, fs.ErrPermission) {
					t.Errorf("error does not say %q: %v", want, err)
				}
			}
			for address, want := range map[string]string{"": "chown", "10.96.0.1": "fsGroup, or in an MPIJob sshAuthMountPath"} {
				o := Options{Env: func(string) string { return address }}
				if how := o.readable(); !strings.Contains(how, want) {
					t.Errorf("what to do is %q, not %q", how, want)
				}
			}
		})
	}
}
