// Package nearby lets a user look at the runs that the same user has on this machine, without a port and without a secret.
//
//	question  kind (1 byte), length (4 bytes, big endian), that many bytes       ──▶ socket DIR/PID-KERNEL-RANDOM.sock
//	answer    0: told, 1: an error's text; length; that many bytes               ◀──
//
// Containers may share the directory and their pids, and machines may share it by NFS. So each socket has a random number, nobody
// makes one that is there already, and only who runs on the same kernel asks there: a socket reaches no further. What a killed process has left is
// removed by who shares its pids, and sees that it is gone.
//
// Who may ask is the user, by the kernel: the directory is the user's and open to nobody else, which both sides look at before they use it, since somebody
// may have made it first where all may; and each side asks the kernel who the other is (SO_PEERCRED). Both go through one open directory, so that
// none is put in its place meanwhile. A question is small, its answer bounded, and few are asked at a time.
//
// Serve and Ask may be called on any goroutine. The package knows no question's meaning.
package nearby

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mpiup/mpiup/internal/awake"
	"github.com/mpiup/mpiup/internal/bounded"
	"github.com/mpiup/mpiup/internal/pattern"
	"github.com/mpiup/mpiup/internal/visible"
)

// Bounds.
const (
	maxQuestion = 64 << 10
	maxAsking   = 4               // at a time; others wait in the kernel's queue
	hearing     = 2 * time.Second // for a question to come
	telling     = 5 * time.Second // for an answer to be taken
	maxRuns     = 64              // that are asked
	maxError    = 1 << 10         // bytes of the text of an error
	suffix      = ".sock"
)

// Dir is where a user's runs listen: below the runtime directory that the system gives the user, else below temp.
func Dir(runtime, temp string, uid int) string {
	if filepath.IsAbs(runtime) {
		return filepath.Join(runtime, "mpiup")
	}
	return filepath.Join(temp, fmt.Sprintf("mpiup-look-%d", uid))
}

// open opens the directory, if it is this user's alone.
func open(path string) (*os.File, error) {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	dir := os.NewFile(uintptr(fd), path)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil || int(st.Uid) != os.Geteuid() || st.Mode&0o077 != 0 {
		dir.Close()
		return nil, fmt.Errorf("%s is not a directory of uid %d that is closed to all others (mode 0700); remove it, or have its owner do so", path, os.Geteuid())
	}
	return dir, nil
}

// in is a name in an open directory as a path, whatever is put in the directory's place.
func in(dir *os.File, name string) string { return fmt.Sprintf("/proc/self/fd/%d/%s", dir.Fd(), name) }

// kernel is the kernel that runs, and of its pids those that this process sees, as words without "-"; "" for what it does not tell.
func kernel() (boot, pids string) {
	if id, err := bounded.File("/proc/sys/kernel/random/boot_id", 1<<10); err == nil {
		boot = strings.ReplaceAll(strings.TrimSpace(string(id)), "-", "")
		boot = boot[:min(len(boot), 12)]
	}
	if link, err := os.Readlink("/proc/self/ns/pid"); err == nil {
		pids = strings.Trim(link, "pid:[]")
	}
	return boot, pids
}

// named is a socket's name as Serve makes it.
func named(pid int) string {
	boot, pids := kernel()
	var own [8]byte
	rand.Read(own[:])
	return fmt.Sprintf("%d-%s.%s-%x%s", pid, boot, pids, own, suffix)
}

// form is that of a socket's name as Serve makes it. What has another is nobody's of ours.
var form = pattern.Of(`^[0-9]{1,10}-[0-9a-f]{0,12}\.[0-9]{0,20}-[0-9a-f]{1,16}\.sock$`)

// owner is what a socket's name tells of who made it.
type owner struct {
	name      string // its pid
	elsewhere bool   // on another kernel, or before this one's start
	gone      bool   // it was a process that this one would see, and does not
}

func ownerOf(socket string) (o owner) {
	boot, pids := kernel()
	pid, rest, _ := strings.Cut(strings.TrimSuffix(socket, suffix), "-")
	made, _, _ := strings.Cut(rest, "-")
	on, among, known := strings.Cut(made, ".")
	o.name, o.elsewhere = pid, known && on != "" && boot != "" && on != boot
	n, err := strconv.Atoi(pid)
	o.gone = known && err == nil && n > 0 && on == boot && boot != "" && among == pids && pids != "" && errors.Is(unix.Kill(n, 0), unix.ESRCH)
	return o
}

// same says that the kernel tells of whoever is at the other end that it is this user.
func same(c *net.UnixConn) bool {
	raw, err := c.SyscallConn()
	if err != nil {
		return false
	}
	is := false
	err = raw.Control(func(fd uintptr) {
		cred, err := unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
		is = err == nil && int(cred.Uid) == os.Geteuid()
	})
	return err == nil && is
}

// Serve answers this user's questions as this process until ctx ends, and has then ended all that it started. It makes the directory where it is
// missing.
func Serve(ctx context.Context, path string, answer func(ctx context.Context, kind byte, question []byte) ([]byte, error)) error {
	if err := os.MkdirAll(path, 0o700); err != nil {
		return err
	}
	dir, err := open(path)
	if err != nil {
		return err
	}
	defer dir.Close()
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: in(dir, named(os.Getpid())), Net: "unix"})
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	defer l.Close() // which removes its name
	var parts sync.WaitGroup
	defer parts.Wait()
	stop := context.AfterFunc(ctx, func() { l.Close() })
	defer stop()
	asking := make(chan struct{}, maxAsking)
	for {
		c, err := l.AcceptUnix()
		if err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return fmt.Errorf("%s: %w", path, err)
		}
		if !same(c) {
			c.Close()
			continue
		}
		asking <- struct{}{}
		parts.Go(func() {
			defer func() { c.Close(); <-asking }()
			reply(ctx, c, answer)
		})
	}
}

func reply(ctx context.Context, c *net.UnixConn, answer func(context.Context, byte, []byte) ([]byte, error)) {
	var kind byte
	var question []byte
	err := within(ctx, hearing, c, func() (err error) {
		kind, question, err = receive(c, maxQuestion)
		return err
	})
	if err != nil {
		return
	}
	text, err := answer(ctx, kind, question)
	kind = 0
	if err != nil {
		kind, text = 1, []byte(err.Error())
	}
	_ = within(ctx, telling, c, func() error { return send(c, kind, text) }) // who has gone is told nothing
}

// within gives what is done with a connection its time, which ends it.
func within(ctx context.Context, time time.Duration, c io.Closer, do func() error) error {
	ctx, cancel := awake.Within(ctx, time)
	defer cancel()
	stop := context.AfterFunc(ctx, func() { c.Close() })
	defer stop()
	return do()
}

func send(w io.Writer, kind byte, text []byte) error {
	head := binary.BigEndian.AppendUint32([]byte{kind}, uint32(len(text)))
	_, err := w.Write(append(head, text...))
	return err
}

func receive(r io.Reader, most int) (kind byte, text []byte, err error) {
	var head [5]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return 0, nil, err
	}
	n := binary.BigEndian.Uint32(head[1:])
	if uint64(n) > uint64(most) {
		return 0, nil, fmt.Errorf("%d bytes, and %d are the most", n, most)
	}
	text, err = io.ReadAll(io.LimitReader(r, int64(n))) // which takes memory as it comes
	if err == nil && len(text) < int(n) {
		err = io.ErrUnexpectedEOF
	}
	return head[0], text, err
}

// Answer is what one run told.
type Answer struct {
	Name string // of who served: its pid, as it sees that itself
	Text []byte
	Err  error
}

// Ask asks all of this user's runs that listen in a directory, each for at most the time that ctx has, and takes answers of at most so many
// bytes. Where there is no such directory nobody listens.
func Ask(ctx context.Context, path string, kind byte, question []byte, most int) (all []Answer, err error) {
	dir, err := open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return nil, err
	}
	names = slices.DeleteFunc(names, func(n string) bool { return !form().MatchString(n) || ownerOf(n).elsewhere })
	slices.Sort(names)
	more := len(names) - maxRuns
	names = names[:min(len(names), maxRuns)]
	answers := make([]*Answer, len(names))
	var asked sync.WaitGroup
	for i, name := range names {
		asked.Go(func() {
			var d net.Dialer
			c, err := d.DialContext(ctx, "unix", in(dir, name))
			of := ownerOf(name)
			if errors.Is(err, unix.ECONNREFUSED) {
				if of.gone {
					_ = os.Remove(in(dir, name))
				}
				return
			}
			a := &Answer{Name: of.name, Err: err}
			if err == nil {
				a.Text, a.Err = ask(ctx, c.(*net.UnixConn), kind, question, most)
			}
			answers[i] = a
		})
	}
	asked.Wait()
	for _, a := range answers {
		if a != nil {
			all = append(all, *a)
		}
	}
	if more > 0 {
		all = append(all, Answer{Name: "others", Err: fmt.Errorf("%d more were not asked, %d are at a time", more, maxRuns)})
	}
	return all, nil
}

func ask(ctx context.Context, c *net.UnixConn, kind byte, question []byte, most int) ([]byte, error) {
	defer c.Close()
	if !same(c) {
		return nil, errors.New("another user listens there")
	}
	defer context.AfterFunc(ctx, func() { c.Close() })()
	if err := send(c, kind, question); err != nil {
		return nil, err
	}
	state, text, err := receive(c, most)
	if err == nil && state != 0 {
		text, err = nil, errors.New(visible.Line(string(text[:min(len(text), maxError)])))
	}
	return text, err
}
