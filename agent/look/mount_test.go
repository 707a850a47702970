package look

import (
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mpiup/mpiup/agent/reap/proctree"
	"github.com/mpiup/mpiup/test/cost"
	"github.com/mpiup/mpiup/test/need"
)

const mountInfo = `22 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw
36 22 0:50 / /data rw,relatime shared:7 - nfs4 filer:/export/a rw,vers=4.2
37 22 0:51 / /with\040space rw - fuse.sshfs user@host:/home rw
38 22 0:52 / /proc rw - proc proc rw
bad line
`

// What a process waits for, of processes as text.
func TestHeldOn(t *testing.T) {
	const onlyNFS = "22 1 254:0 / / rw - ext4 /dev/vda rw\n36 22 0:50 / /data rw - nfs4 filer:/export rw\n"
	read := fmt.Sprintf("%d 0x3 0x7ffd 0x10 0x0 0x0 0x0 0x7ffe 0x7fff\n", unix.SYS_READ)
	openat := fmt.Sprintf("%d 0xffffff9c 0x7ffd 0x10 0x0 0x0 0x0 0x7ffe 0x7fff\n", unix.SYS_OPENAT)
	for _, tt := range []struct {
		name    string
		state   byte
		kernel  Kernel
		mounts  string
		syscall string
		fdinfo  string
		cwd     string
		want    string
	}{
		{"a read of NFS", 'D', Kernel{}, mountInfo, read, "pos:\t0\nflags:\t0100000\nmnt_id:\t36\nino:\t4\n", "/", "/data (nfs4, filer:/export/a)"},
		{"a read of FUSE, which is no state D", 'S', Kernel{Wchan: "request_wait_answer"}, mountInfo, read, "mnt_id:\t37\n", "/", "/with space (fuse.sshfs, user@host:/home)"},
		{"a read of a local disk", 'D', Kernel{}, mountInfo, read, "mnt_id:\t22\n", "/", "/ (ext4, /dev/vda)"},
		{"a read of a pipe", 'D', Kernel{}, mountInfo, read, "mnt_id:\t14\n", "/", ""},
		{"no descriptor's mount", 'D', Kernel{}, mountInfo, read, "mnt_id:\tx\n", "/", ""},
		{"an open where it works", 'D', Kernel{}, mountInfo, openat, "", "/data/sub", "/data (nfs4, filer:/export/a)"},
		{"an open, and one remote mount", 'D', Kernel{}, onlyNFS, openat, "", "/", "/data (nfs4, filer:/export)"},
		{"an open, and two remote mounts", 'D', Kernel{}, mountInfo, openat, "", "/database", ""},
		{"an open, and one remote mount over itself", 'D', Kernel{}, onlyNFS + "37 36 0:50 / /data rw - nfs4 filer:/export rw\n", openat, "", "/", "/data (nfs4, filer:/export)"},
		{"the kernel shows no call", 'D', Kernel{}, onlyNFS, "", "", "/", "/data (nfs4, filer:/export)"},
		{"it sleeps", 'S', Kernel{Wchan: "futex_wait_queue"}, mountInfo, read, "mnt_id:\t36\n", "/", ""},
		{"no mounts", 'D', Kernel{}, "", read, "mnt_id:\t36\n", "/", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			root := t.TempDir()
			for name, text := range map[string]string{"mountinfo": tt.mounts, "syscall": tt.syscall, "fdinfo/3": tt.fdinfo} {
				path := filepath.Join(root, "7", name)
				if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			if err := os.Symlink(tt.cwd, filepath.Join(root, "7", "cwd")); err != nil {
				t.Fatal(err)
			}
			if got := heldOn(proctree.Proc{Root: root}, 7, tt.state, tt.kernel); got != tt.want {
				t.Errorf("%q, want %q", got, tt.want)
			}
		})
	}
}

func FuzzMounts(f *testing.F) {
	f.Add([]byte(mountInfo), []byte("0 0x3"), []byte("mnt_id:\t36\n"))
	f.Fuzz(func(t *testing.T, mounts, call, info []byte) {
		defer cost.Watch(t, cost.Parser, len(mounts)+len(call)+len(info))()
		for _, m := range parseMounts(mounts) {
			if len(m.String()) > 3*maxMount {
				t.Errorf("%q is long", m.String())
			}
		}
		heldFD(call)
		mountID(info)
	})
}

// A real mount whose server does not answer: a FUSE server here, which opens its one file and never answers a read.
func TestHeldOnARealMount(t *testing.T) {
	need.Root(t)
	dev, err := unix.Open("/dev/fuse", unix.O_RDWR|unix.O_CLOEXEC, 0)
	need.Done(t, "fuse", err, "run where /dev/fuse is")
	server := os.NewFile(uintptr(dev), "fuse")
	dir := t.TempDir()
	options := fmt.Sprintf("fd=%d,rootmode=40000,user_id=0,group_id=0", dev)
	err = unix.Mount("filer:/export", dir, "fuse.slow", unix.MS_NOSUID|unix.MS_NODEV, options)
	need.Done(t, "fuse", err, "run where FUSE can be mounted")
	done := make(chan struct{})
	go func() { defer close(done); serveFUSE(server) }()
	cmd := exec.Command("cat", filepath.Join(dir, "file"))
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = cmd.Process.Kill()
		_ = unix.Unmount(dir, unix.MNT_FORCE|unix.MNT_DETACH)
		server.Close()
		_ = cmd.Wait()
		<-done
	}()
	proc := proctree.Proc{Root: "/proc"}
	want := dir + " (fuse.slow, filer:/export)"
	var u Usage
	for late := time.Now().Add(20 * time.Second); time.Now().Before(late) && !strings.HasSuffix(u.Kernel.String(), " on "+want); {
		all, err := At(proc, []Leader{{PID: cmd.Process.Pid}})
		if err != nil {
			t.Fatal(err)
		}
		u = all[cmd.Process.Pid]
	}
	if u.Kernel.Mount != want || !strings.HasSuffix(u.Kernel.String(), " on "+want) {
		t.Errorf("it waits in %+v, want %q", u.Kernel, want)
	}
	t.Logf("state %c: %v", u.State, u.Kernel)
}

// serveFUSE answers what opening a file needs, and no read (include/uapi/linux/fuse.h).
func serveFUSE(dev *os.File) {
	const (
		lookup, getattr, open, read, initialize = 1, 3, 14, 15, 26
		attrBytes                               = 88
	)
	attr := func(node uint64, mode uint32) []byte {
		b := make([]byte, attrBytes)
		binary.NativeEndian.PutUint64(b, node)
		binary.NativeEndian.PutUint64(b[8:], 4096) // size
		binary.NativeEndian.PutUint32(b[60:], mode)
		binary.NativeEndian.PutUint32(b[64:], 1) // links
		return b
	}
	for request := make([]byte, 1<<17); ; {
		n, err := dev.Read(request)
		if err != nil || n < 40 {
			return
		}
		var answer []byte
		switch op := binary.NativeEndian.Uint32(request[4:]); op {
		case initialize:
			answer = make([]byte, 64)
			binary.NativeEndian.PutUint32(answer, 7)
			binary.NativeEndian.PutUint32(answer[4:], 31)
			binary.NativeEndian.PutUint32(answer[20:], 4096) // max_write
		case getattr:
			answer = append(make([]byte, 16), attr(1, unix.S_IFDIR|0o755)...)
			if binary.NativeEndian.Uint64(request[16:]) == 2 {
				answer = append(make([]byte, 16), attr(2, unix.S_IFREG|0o644)...)
			}
		case lookup:
			answer = append(binary.NativeEndian.AppendUint64(nil, 2), make([]byte, 32)...)
			answer = append(answer, attr(2, unix.S_IFREG|0o644)...)
		case open:
			answer = make([]byte, 16)
		case read:
			continue
		}
		out := binary.NativeEndian.AppendUint32(nil, uint32(16+len(answer)))
		code := int32(0)
		if answer == nil {
			code = -int32(unix.ENOSYS)
		}
		out = binary.NativeEndian.AppendUint32(out, uint32(code))
		out = append(out, request[8:16]...)
		if _, err := dev.Write(append(out, answer...)); err != nil {
			return
		}
	}
}
