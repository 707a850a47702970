package kubelet

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
)

// container is what a script makes of the file systems before the command begins.
type container struct {
	hostname   string // "": the node's
	namespace  string
	shared     string // directory of the test that all hosts see; hidden from the container
	etc        string // directory with hosts, resolv.conf and termination-log of the pod
	image      Image
	mounts     []mount
	message    string // where the last message is written
	besteffort bool   // nothing is known of what it needs
	readOnly   bool
	token      bool // the service account's directory
	workDir    string
	privilege  []string
	env        []string
	argv       []string
}

// mount is a volume's or a file's place in the container.
type mount struct {
	at, source string
	readOnly   bool
	file       bool
}

// shared are the directories that a container has from this machine, with what an image lays over
// them; nothing can be mounted below them but below /usr/local/bin and /usr/sbin, which it has
// for itself as all the rest.
var shared = []string{"/bin", "/boot", "/lib", "/lib32", "/lib64", "/proc", "/sbin", "/sys", "/usr", "/var", "/srv", "/media"}

func placed(path string) bool {
	below := func(dir string) bool { return path == dir || strings.HasPrefix(path, dir+"/") }
	if below("/usr/local/bin") || below("/usr/sbin") || below("/var/run") {
		return true
	}
	return path != "/" && strings.HasPrefix(path, "/") && !slices.ContainsFunc(shared, below)
}

// quote makes one word of the shell.
func quote(word string) string { return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'" }

// script makes the container's file systems and becomes its command. It runs as root in mount
// and pid namespaces of the container's own. A new root goes over the old one, as switch_root(8)
// does it, so that what is executed in the namespace later sees it too.
func (c *container) script() string {
	return fmt.Sprintf(`set -eu; umask 022; export PATH=/usr/sbin:/usr/bin:/sbin:/bin
mount -t tmpfs -o mode=755 tmpfs /mnt; cd /mnt
mkdir old far run home opt etc mnt; mkdir -m 1777 tmp; mkdir -m 700 root
mount --bind %s old
%sfor d in %s /dev; do
  if [ -L $d ]; then cp -P $d .$d; elif [ -d $d ]; then mkdir .$d; mount --rbind $d .$d; fi
done
cp -a /etc/. etc/; rm -rf etc/mpi etc/mpiup etc/volcano etc/ssh
mount --move . /
exec chroot . /bin/sh -c %s
`, quote(c.shared), c.bring(), strings.Join(shared, " "), quote(c.inside()))
}

// bring puts the image's directories that lie elsewhere than in the shared one where the container's own root has
// them, read-only: they are too large to be copied for a test.
func (c *container) bring() string {
	var b strings.Builder
	for i, source := range c.far() {
		fmt.Fprintf(&b, "mkdir far/%d; mount --bind %s far/%[1]d; mount -o remount,ro,bind far/%[1]d\n", i, quote(source))
	}
	return b.String()
}

// far are the image's directories that lie neither in the shared one nor where the container sees this machine's own,
// in an order that stays.
func (c *container) far() []string {
	var out []string
	for _, path := range slices.Sorted(maps.Keys(c.image.Files)) {
		if source := c.image.Files[path]; !strings.HasPrefix(source, c.shared+"/") && placed(source) {
			out = append(out, source)
		}
	}
	return out
}

// inside is the script's second half, in the container's own root.
func (c *container) inside() string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	line("set -eu; cd /; for d in /tmp /run /home; do mount --bind $d $d; done")
	if c.hostname != "" {
		line("echo %s >/proc/sys/kernel/hostname; echo %[1]s >/etc/hostname", quote(c.hostname))
	}
	c.dev(line)
	line("for f in hosts resolv.conf; do rm -f /etc/$f; : >/etc/$f; mount --bind %s/$f /etc/$f; done", quote(c.see(c.etc)))
	line("mkdir /run/.sbin; mount --bind /usr/sbin /run/.sbin; mount -t tmpfs -o mode=755 tmpfs /usr/sbin; ln -s /run/.sbin/* /usr/sbin/")
	line("mount -t tmpfs -o mode=755 tmpfs /usr/local/bin")
	for _, path := range slices.Sorted(maps.Keys(c.image.Files)) {
		source := quote(c.see(c.image.Files[path]))
		line("mkdir -p %s; if [ -d %s ]; then mkdir -p %s; else rm -f %[3]s; : >%[3]s; fi; mount --bind %[2]s %[3]s", quote(filepath.Dir(path)), source, quote(path))
	}
	for _, path := range c.image.Without {
		line("[ ! -e %[1]s ] || mount --bind /dev/null %[1]s", quote(path))
	}
	if c.token {
		line("d=/run/secrets/kubernetes.io/serviceaccount; mkdir -p $d; printf %%s %s >$d/namespace; echo token >$d/token; echo certificate >$d/ca.crt", quote(c.namespace))
		line("mount --bind $d $d; mount -o remount,ro,bind $d")
	}
	for _, m := range c.mounts {
		if m.file {
			line("mkdir -p %s; : >>%s", quote(filepath.Dir(m.at)), quote(m.at))
		} else {
			line("mkdir -p %s", quote(m.at))
		}
		line("mount --bind %s %s", quote(c.see(m.source)), quote(m.at))
		if m.readOnly {
			line("mount -o remount,ro,bind %s", quote(m.at))
		}
	}
	for i := range c.far() {
		line("umount -l /far/%d; rmdir /far/%[1]d", i)
	}
	line("umount -l /old; rmdir /old /far")
	if c.readOnly {
		line("for d in / /usr /usr/sbin /usr/local/bin /var %s; do mount -o remount,ro,bind $d; done", strings.Join(c.writable(), " "))
	}
	line("for d in /proc/sys /sys; do mount --bind $d $d; mount -o remount,ro,bind $d; done; for f in /proc/kcore /proc/sysrq-trigger; do [ ! -e $f ] || { mount --bind /dev/null $f; mount -o remount,ro,bind $f; }; done")
	if c.besteffort {
		line("echo 1000 >/proc/self/oom_score_adj") // pkg/kubelet/qos/policy.go
	}
	line("cd %s", quote(c.workDir))
	line("(export PATH=%s; command -v %s) >/dev/null || { echo %c >&3; exit 0; }", quote(c.path()), quote(c.argv[0]), unfound)
	b.WriteString("echo >&3; exec 3>&-\nexec") // a line says that the file systems are there
	for _, w := range slices.Concat(c.privilege, []string{"/usr/bin/env", "-i"}, c.env, c.argv) {
		b.WriteString(" " + quote(w))
	}
	return b.String() + "\n"
}

// unfound is the script's word for a command that is not there.
const unfound = 'u'

// path is where the command is looked for.
func (c *container) path() string {
	i := slices.IndexFunc(c.env, func(kv string) bool { return strings.HasPrefix(kv, "PATH=") })
	if i < 0 {
		return ""
	}
	return c.env[i][len("PATH="):]
}

// writable are the directories that are mounts of their own for the sake of a read-only root, and
// no volumes.
func (c *container) writable() []string {
	return slices.DeleteFunc([]string{"/tmp", "/run", "/home"}, func(dir string) bool {
		return slices.ContainsFunc(c.mounts, func(m mount) bool { return m.at == dir })
	})
}

// see is the path under which the script finds a file of the shared directory.
func (c *container) see(path string) string {
	if rest, ok := strings.CutPrefix(path, c.shared+"/"); ok {
		return "/old/" + rest
	}
	if i := slices.Index(c.far(), path); i >= 0 {
		return fmt.Sprintf("/far/%d", i)
	}
	return path
}

// dev makes a container's /dev, as the OCI runtime specification wants it, with the file for a
// last message.
func (c *container) dev(line func(string, ...any)) {
	line(`mkdir /run/dev; mount -t tmpfs -o mode=755 tmpfs /run/dev
for n in null zero full random urandom tty; do : >/run/dev/$n; mount --bind /dev/$n /run/dev/$n; done
ln -s /proc/self/fd /run/dev/fd; ln -s /proc/self/fd/0 /run/dev/stdin; ln -s /proc/self/fd/1 /run/dev/stdout; ln -s /proc/self/fd/2 /run/dev/stderr
mkdir /run/dev/shm /run/dev/pts; mount -t tmpfs -o mode=1777,size=64m shm /run/dev/shm; mkdir /run/dev/mqueue; mount -t mqueue mqueue /run/dev/mqueue
mount -t devpts -o newinstance,ptmxmode=0666,mode=0620 devpts /run/dev/pts; ln -s pts/ptmx /run/dev/ptmx
: >/run/dev/termination-log; [ %s != /dev/termination-log ] && rm /run/dev/termination-log || mount --bind %s /run/dev/termination-log
umount -l /dev; mount --rbind /run/dev /dev; umount -l /run/dev`, quote(c.message), quote(c.see(filepath.Join(c.etc, "termination-log"))))
}
