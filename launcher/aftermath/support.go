package aftermath

import (
	"archive/tar"
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/mpiup/mpiup/internal/awake"
	"github.com/mpiup/mpiup/internal/bounded"
	"github.com/mpiup/mpiup/internal/identity"
	"github.com/mpiup/mpiup/internal/job"
	"github.com/mpiup/mpiup/internal/secret"
	"github.com/mpiup/mpiup/internal/visible"
)

// Support is a bundle for who helps: what mpiup's own commands say of a job, in one file, in the layout of oc adm must-gather:
//
//	must-gather.local.1795731000/timestamp              when it was begun and ended
//	must-gather.local.1795731000/mpiup/version          whose it is
//	must-gather.local.1795731000/mpiup/namespaces/NAMESPACE/pods/POD/mpiup/doctor.txt ...
//
// Outside Kubernetes the namespace is "none". Each command is a process of its own, bounded in time and bytes. No line of theirs is kept
// that a report would mask, and none with what the environment or a key file holds as a secret.
type Support struct {
	Program        string   // mpiup; "": this one
	Version        string   // its build
	Namespace, Pod string   // where it runs; "": in none
	Hosts          []string // flags that say which hosts are meant, for those commands that ask any
	AskFrom        []string // the words before such a command, which run it elsewhere, as kubectl exec does; nil: it runs here, as Program
	Job            string   // a report or a log; "": of this user's newest failure, where there is one
	Env            []string
	Key, TLSDir    string // as flags name them: nothing of what they hold is told, nor of files where secrets are found without

	// Run runs a program and gives the first most bytes that it writes, more: there were more, the last line of its errors, and its end. When
	// ctx ends it is killed.
	Run func(ctx context.Context, argv, env []string, most int) (out []byte, more bool, last string, end job.Exit, err error)

	To   string // the file that is written; "": one of a name by host and time, here
	List bool   // what would be inside is listed, and nothing is written

	partBound time.Duration // of one command; 0: a minute
}

// Bounds of a bundle.
const (
	maxPart     = 4 << 20     // bytes of a command's output; its beginning is kept
	longestPart = time.Minute // that a command takes
	leastSecret = 8           // bytes of what is masked wherever it stands
)

// part is one file of a bundle.
type part struct {
	name string
	argv []string // of mpiup; nil: it is made here
	of   string   // "hosts": with flags for these; "run": with a report or log
}

var parts = []part{
	{"version.txt", []string{"version"}, ""},
	{"settings.txt", nil, ""},
	{"doctor.txt", []string{"doctor", "-v"}, "hosts"},
	{"peers.txt", []string{"peers", "-v"}, "hosts"},
	{"ps.txt", []string{"ps"}, "hosts"},
	{"verdict.txt", []string{"why"}, "run"},
	{"report.txt", []string{"report"}, "run"},
	{"report.json", []string{"report", "--json"}, "run"},
}

// entry is a part that was made.
type entry struct {
	name, note string
	text       []byte
}

// Support makes a bundle, says what is inside, and writes it. A command that fails is told of in the list and does not keep the others out.
func (d *Desk) Support(ctx context.Context, s Support) (err error) {
	if s.Program == "" {
		if s.Program, err = os.Executable(); err != nil {
			return err
		}
	}
	if s.To == "" {
		s.To = fmt.Sprintf("mpiup-support-%s-%s.tar.gz", filepath.Base(s.Pod), time.Now().UTC().Format("20060102T150405Z"))
	}
	if !s.List {
		if _, err := os.Lstat(s.To); err == nil {
			return &fs.PathError{Op: "make", Path: s.To, Err: errors.New("it is there already, and is not overwritten; name another with --output")}
		}
	}
	run := s.Job
	if run == "-" {
		return errors.New("a bundle is made of a file, which is read three times; write kubectl logs POD > launcher.log, and name that")
	}
	if run == "" {
		if all, err := d.kept(); err == nil {
			run = all[0]
		}
	}
	begun, masks := time.Now().UTC(), s.secrets()
	var made []entry
	for _, p := range parts {
		e := entry{name: p.name}
		switch {
		case p.argv == nil:
			e.text = []byte(settings(s.Env))
		case p.of == "run" && run == "":
			e.note = "left out: no run of this user has left a report, and none was named"
		default:
			visible.Fprintf(d.Stderr, "mpiup: mpiup %s ...\n", strings.Join(p.argv, " "))
			e.text, e.note = s.asks(ctx, p, run)
		}
		if err := ctx.Err(); err != nil {
			return context.Cause(ctx)
		}
		e.text = hide(e.text, masks)
		made = append(made, e)
	}
	bundle, names, err := s.pack(made, begun)
	if err != nil {
		return err
	}
	if err := d.inside(names, made); err != nil || s.List {
		return err
	}
	if err := create(s.To, bundle); err != nil {
		return err
	}
	_, err = visible.Fprintf(d.Stdout, "%s: %d bytes, for you alone to read (mode 0600); look into it before you hand it on\n", s.To, len(bundle))
	return err
}

// asks is what a command says, with its end where that is no success.
func (s *Support) asks(ctx context.Context, p part, run string) (text []byte, note string) {
	most := cmp.Or(s.partBound, longestPart)
	ctx, cancel := awake.Within(ctx, most)
	defer cancel()
	argv := append([]string{s.Program}, p.argv...)
	switch p.of {
	case "hosts":
		if s.AskFrom != nil {
			argv = slices.Concat(s.AskFrom, p.argv)
		}
		argv = slices.Concat(argv, s.Hosts)
	case "run":
		argv = append(argv, run)
	}
	out, more, last, end, err := s.Run(ctx, argv, s.Env, maxPart)
	var notes []string
	switch {
	case ctx.Err() != nil:
		notes = append(notes, fmt.Sprintf("ended after %v", most))
	case err != nil:
		notes = append(notes, err.Error())
	case end.Status() != 0:
		notes = append(notes, end.String())
	}
	if more {
		notes = append(notes, fmt.Sprintf("its first %d bytes", maxPart))
	}
	if last != "" {
		out = fmt.Appendf(out, "the last line of standard error: %s\n", last)
	}
	return out, strings.Join(notes, ", ")
}

// heard are the beginnings of variables that mpiup, MPI libraries, frameworks and the operators' pods are set by.
var heard = []string{"MPIUP_", "OMPI_", "PMIX_", "PRTE_", "PRRTE_", "HYDRA_", "MPICH_", "MPIR_", "I_MPI_", "FI_", "UCX_", "NCCL_", "TORCH_", "GLOO_",
	"HOROVOD_", "OMP_", "CUDA_VISIBLE", "NVIDIA_", "ROCR_", "PET_", "JOB_", "JOBSET_", "LWS_", "VC_", "GROVE_", "K_MPI_",
	"SLURM_", "OTEL_", "TRACEPARENT", "KUBEFLOW_",
	"KUBERNETES_SERVICE_HOST", "HOSTNAME", "NODE_NAME", "LD_LIBRARY_PATH", "LD_PRELOAD", "PATH", "TMPDIR", "GOMAXPROCS", "GOMEMLIMIT", "GOGC"}

// settings are the variables that matter, without values that may be secrets, and the names of all others.
func settings(env []string) string {
	var b strings.Builder
	var others []string
	for _, kv := range slices.Sorted(slices.Values(env)) {
		name, value, _ := strings.Cut(kv, "=")
		switch {
		case !slices.ContainsFunc(heard, func(begin string) bool { return strings.HasPrefix(name, begin) }):
			others = append(others, name)
		case secret.IsVariable(kv) && value != "":
			b.WriteString(visible.Line(name) + "=***\n")
		default:
			b.WriteString(visible.Line(kv) + "\n")
		}
	}
	fmt.Fprintf(&b, "\nset, of which no value is told: %s\n", visible.Line(strings.Join(others, " ")))
	return b.String()
}

// secrets are texts that stand nowhere in a bundle: values of variables that may be secrets, and lines of key files.
func (s *Support) secrets() (list []string) {
	for _, kv := range s.Env {
		if _, value, _ := strings.Cut(kv, "="); secret.IsVariable(kv) {
			list = append(list, value)
		}
	}
	for _, file := range s.keyFiles() {
		text, err := bounded.Regular(file, 64<<10)
		if err != nil {
			continue // nothing of it can be told
		}
		for line := range strings.Lines(string(text)) {
			if !strings.HasPrefix(line, "-----") {
				list = append(list, strings.TrimSpace(line))
			}
		}
	}
	list = slices.DeleteFunc(list, func(l string) bool { return len(l) < leastSecret })
	slices.SortFunc(list, func(a, b string) int { return cmp.Or(len(b)-len(a), strings.Compare(a, b)) }) // one may hold another
	return slices.Compact(list)
}

// keyFiles are where this job's secret may be. One that is not there is none.
func (s *Support) keyFiles() (list []string) {
	env := func(name string) string {
		for _, kv := range s.Env {
			if n, value, _ := strings.Cut(kv, "="); n == name {
				return value
			}
		}
		return ""
	}
	for _, name := range []string{s.Key, env("MPIUP_KEY"), identity.DefaultKeyDir} {
		list = append(list, inOrAt(name)...)
	}
	for _, dir := range []string{s.TLSDir, env("MPIUP_TLS_DIR")} {
		list = append(list, filepath.Join(dir, "tls.key"))
	}
	for _, home := range []string{env("HOME"), "/root"} {
		for _, name := range []string{"id_rsa", "id_ecdsa", "id_ed25519"} {
			list = append(list, filepath.Join(home, ".ssh", name))
		}
	}
	return list
}

// inOrAt is a file, or the files of a directory.
func inOrAt(name string) (list []string) {
	entries, err := os.ReadDir(name)
	if err != nil {
		return []string{name}
	}
	for _, e := range entries {
		list = append(list, filepath.Join(name, e.Name()))
	}
	return list
}

// hide is a text without secrets.
func hide(text []byte, secrets []string) []byte {
	pairs := make([]string, 0, 2*len(secrets))
	for _, s := range secrets {
		pairs = append(pairs, s, "***")
	}
	whole := strings.NewReplacer(pairs...).Replace(string(text))
	var b bytes.Buffer
	var m secret.LineMasker
	for line := range strings.Lines(whole) {
		text := strings.TrimSuffix(line, "\n")
		b.WriteString(m.Line(text) + line[len(text):])
	}
	return b.Bytes()
}

// pack makes the file of what was made, and names what is in it in the order of made, which is less the parts that are empty.
func (s *Support) pack(made []entry, begun time.Time) (bundle []byte, names map[string]string, err error) {
	top := fmt.Sprintf("must-gather.local.%d", begun.Unix())
	dir := path.Join(top, "mpiup/namespaces", cmp.Or(s.Namespace, "none"), "pods", cmp.Or(s.Pod, "none"), "mpiup")
	var b bytes.Buffer
	zip := gzip.NewWriter(&b)
	t := tar.NewWriter(zip)
	add := func(name string, text []byte) {
		err = errors.Join(err, t.WriteHeader(&tar.Header{Name: name, Mode: 0o600, Size: int64(len(text)), ModTime: begun, Format: tar.FormatPAX}))
		_, w := t.Write(text)
		err = errors.Join(err, w)
	}
	add(top+"/timestamp", fmt.Appendf(nil, "%s\n%s\n", begun.Format(time.RFC3339), time.Now().UTC().Format(time.RFC3339)))
	add(top+"/mpiup/version", fmt.Appendf(nil, "mpiup\n%s\n", s.Version))
	names = map[string]string{}
	for _, e := range made {
		if len(e.text) > 0 {
			names[e.name] = path.Join(dir, e.name)
			add(names[e.name], e.text)
		}
	}
	err = errors.Join(err, t.Close(), zip.Close())
	return b.Bytes(), names, err
}

// inside says what is in a bundle.
func (d *Desk) inside(names map[string]string, made []entry) error {
	t := tabwriter.NewWriter(d.Stdout, 0, 8, 2, ' ', 0)
	fmt.Fprintln(t, "BYTES\tFILE\tNOTE")
	for _, e := range made {
		visible.Fprintf(t, "%d\t%s\t%s\n", len(e.text), visible.Line(cmp.Or(names[e.name], e.name)), visible.Line(e.note))
	}
	return t.Flush()
}

// create writes a file that was not there.
func create(name string, text []byte) error {
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, bytes.NewReader(text))
	if err = errors.Join(err, f.Close()); err != nil {
		return errors.Join(err, os.Remove(filepath.Clean(name)))
	}
	return nil
}
