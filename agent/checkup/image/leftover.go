package image

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/mpiup/mpiup/agent/checkup"
)

// names looks which program each of the names is that mpiup stands in for.
func (i *image) names() {
	var ours, shadowed []string
	for _, n := range i.Names {
		first, behind := "", ""
		for _, dir := range strings.Split(i.env("PATH"), ":") {
			file := path.Join("/", dir, n)
			if info := i.stat(file); dir == "" || info == nil || !info.Mode().IsRegular() || info.Mode().Perm()&0o111 == 0 {
				continue
			}
			if first == "" {
				first = file
			} else if behind == "" && i.Ours(file) {
				behind = file
			}
		}
		if first == "" {
			continue
		}
		i.found.Names[n] = first
		switch {
		case i.Ours(first):
			ours = append(ours, n)
		case behind != "":
			shadowed = append(shadowed, fmt.Sprintf("%s is %s, before mpiup's %s", n, first, behind))
		}
	}
	for _, text := range shadowed {
		i.add("names", checkup.Warn, text, "put mpiup's directory first on PATH")
	}
	switch {
	case len(ours) > 0:
		i.add("names", checkup.Pass, "mpiup is "+strings.Join(ours, ", "), "")
	case shadowed == nil:
		i.add("names", checkup.Pass, "mpiup goes by its own name only: mpirun and ssh, where there are any, are the image's", "")
	}
}

// leftovers are what ssh left in the image, of which a job with mpiup has no need.
func (i *image) leftovers() {
	const name = "ssh"
	before := len(i.list)
	var keys []string
	for _, file := range []string{"/usr/sbin/sshd", "/usr/local/sbin/sshd"} {
		if i.stat(file) != nil && !i.Ours(file) {
			i.add(name, checkup.Warn, file+" is a server that no job with mpiup needs", "leave openssh-server out, or make it mpiup: ln -sf /usr/local/bin/mpiup "+file)
		}
	}
	homes := []string{"/root/.ssh"}
	if home := i.env("HOME"); path.IsAbs(home) && path.Clean(home) != "/root" {
		homes = append(homes, path.Join(home, ".ssh"))
	}
	for _, dir := range append([]string{"/etc/ssh"}, homes...) {
		entries, err := fs.ReadDir(i.Files, inFS(dir))
		if err != nil {
			if !errors.Is(err, fs.ErrNotExist) {
				i.add(name, checkup.Unknown, fmt.Sprintf("%s cannot be looked at: %v", dir, errors.Unwrap(err)), "")
			}
			continue
		}
		for _, e := range entries[:min(len(entries), 256)] {
			if file := path.Join(dir, e.Name()); i.privateKey(file) {
				keys = append(keys, file)
			}
		}
	}
	if len(keys) > 0 {
		i.add(name, checkup.Warn, "private keys, known to all who may pull the image: "+strings.Join(keys, ", "), "remove them in "+
			"the same RUN that makes them; a job's key comes from a Secret")
	}
	if len(i.list) == before {
		i.add(name, checkup.Pass, "no server and no key of it is left", "")
	}
}

// privateKey says that a file begins as one.
func (i *image) privateKey(file string) bool {
	info := i.stat(file)
	if info == nil || !info.Mode().IsRegular() || info.Size() > 64<<10 {
		return false
	}
	head, _ := i.beginning(file, 64)
	line, _, _ := strings.Cut(string(head), "\n")
	return strings.HasPrefix(line, "-----BEGIN") && strings.Contains(line, "PRIVATE KEY")
}

func (i *image) user() {
	const name = "user"
	switch who := i.User(i.UID); {
	case i.UID == 0:
		i.add(name, checkup.Warn, "root", "end the Dockerfile with a number that is not 0, as USER 1000: Pod Security restricted "+
			"refuses root, and names that it cannot check")
	case who == "":
		i.add(name, checkup.Pass, fmt.Sprintf("uid %d, which has no name here: programs that ask for one fail", i.UID), "")
	default:
		i.add(name, checkup.Pass, fmt.Sprintf("uid %d (%s); runAsNonRoot needs the number in USER", i.UID, who), "")
	}
}

// record is the directory of agents' records, if the image has it already.
func (i *image) record() string {
	if i.stat(i.Temp) == nil {
		return ""
	}
	return i.Temp
}

// leastShared is what a pod has in /dev/shm without a volume.
const leastShared = 64 << 20

// writable asks where ranks and agents write.
func (i *image) writable() {
	const name = "writable"
	temp := i.env("TMPDIR")
	if temp == "" {
		temp = "/tmp"
	}
	var fine []string
	for _, d := range []struct {
		dir, fix string
		verdict  checkup.Verdict
	}{
		{temp, checkup.TempFix, checkup.Fail},
		{"/dev/shm", "pods have it; a build without it says nothing of them", checkup.Unknown},
		{i.env("HOME"), "set ENV HOME to a directory of that user", checkup.Warn},
		{i.record(), "remove it: agents keep a record there, by which --check and probes find them", checkup.Warn},
	} {
		if d.dir == "" || slices.Contains(fine, d.dir) {
			continue
		}
		if err := i.Write(d.dir); err != nil {
			i.add(name, d.verdict, fmt.Sprintf("uid %d cannot write to %s: %v", i.UID, d.dir, err), d.fix)
			continue
		}
		fine = append(fine, d.dir)
	}
	if len(fine) > 0 {
		i.add(name, checkup.Pass, fmt.Sprintf("uid %d may write to %s", i.UID, strings.Join(fine, ", ")), "")
	}
	if size := i.Size("/dev/shm"); size > 0 && size <= leastShared && slices.Contains(fine, "/dev/shm") {
		i.add(name, checkup.Pass, fmt.Sprintf("/dev/shm has %d MiB here; a pod has more with a volume {name: shm, emptyDir: {medium: Memory}} there", size>>20), "")
	}
}

// packages are Python's, by what is called a framework of them.
var packages = []string{"torch", "jax", "tensorflow", "horovod", "mpi4py", "deepspeed", "tensorrt_llm"}

// sites are the directories of Python's packages, of all interpreters that are where they usually are.
func (i *image) sites() (sites []string) {
	prefixes := []string{"/usr", "/usr/local", "/opt/conda", i.env("VIRTUAL_ENV"), i.env("CONDA_PREFIX")}
	for _, prefix := range prefixes {
		if !path.IsAbs(prefix) {
			continue
		}
		for _, pattern := range []string{"lib/python3*/site-packages", "lib/python3*/dist-packages"} {
			found, err := fs.Glob(i.Files, inFS(prefix)+"/"+pattern)
			if err == nil {
				sites = append(sites, found...)
			}
		}
	}
	slices.Sort(sites)
	return slices.Compact(sites)
}

// frameworks lists Python's packages with their versions, from the directories of their metadata.
func (i *image) frameworks() {
	for _, site := range i.sites() {
		entries, err := fs.ReadDir(i.Files, site)
		if err != nil {
			continue
		}
		for _, e := range entries {
			name, version, ok := strings.Cut(strings.TrimSuffix(strings.TrimSuffix(e.Name(), ".dist-info"), ".egg-info"), "-")
			if !ok || !strings.HasSuffix(e.Name(), "-info") || !slices.Contains(packages, strings.ToLower(name)) || len(version) > 40 {
				continue
			}
			if text := strings.ToLower(name) + " " + version; !slices.Contains(i.found.Frameworks, text) {
				i.found.Frameworks = append(i.found.Frameworks, text)
			}
		}
	}
	if len(i.found.Frameworks) > 0 {
		i.add("frameworks", checkup.Pass, strings.Join(i.found.Frameworks, ", "), "")
	}
}
