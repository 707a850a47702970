package integration

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/mpiup/mpiup/test/guide"
	testlab "github.com/mpiup/mpiup/test/lab"
	"github.com/mpiup/mpiup/test/need"
	"github.com/mpiup/mpiup/test/netns"
)

// notHere are the commands of docs/guide.md that need a cluster or a container tool, and what stands for them.
var notHere = map[string]string{
	"docker build":  "test/kube/contract reads what the image has of train.py and mpiup; test/image/examples.sh runs such a Dockerfile's steps",
	"docker push":   "nothing: there is no registry",
	"kubectl apply": "test/kube/contract, TestGuide: MPI Operator's code makes the pods of the page's manifest",
	"kubectl get":   "nothing",
	"kubectl logs":  "test/kube/contract, TestGuide: the launcher's output",
}

// docs/guide.md, line by line: its files are written, its commands run in their order, and each prints what stands below
// it but for the numbers. w0 and w1 have an agent once the page starts them, w2 never.
func TestGuide(t *testing.T) {
	t.Parallel()
	need.File(t, "torch", "/usr/lib/python3/dist-packages/torch/version.py", "install python3-torch")
	l := hosted(t).apart(t, netns.Config{Hosts: []string{"w0", "w1", "w2"}})
	blocks, err := guide.Read("../../docs/guide.md")
	if err != nil {
		t.Fatal(err)
	}
	g := guided{lab: l, t: t, dir: l.folder(t)}
	for i, b := range blocks {
		switch b.Kind {
		case "python":
			if b.File() == "" {
				t.Fatalf("line %d: a script without a name", b.Line)
			}
			g.write(b)
		case "sh":
			printed := g.run(b)
			if i+1 < len(blocks) && blocks[i+1].Kind == "text" {
				prints(t, blocks[i+1], printed)
			}
		case "text":
			if blocks[i-1].Kind != "sh" {
				t.Errorf("line %d: nothing prints this", b.Line)
			}
		case "dockerfile", "yaml": // test/kube/contract, TestGuide
		default:
			t.Errorf("line %d: a block of kind %q", b.Line, b.Kind)
		}
	}
	if g.ran < 10 {
		t.Errorf("only %d commands were run", g.ran)
	}
}

// guided is somebody who follows the page in a directory that all hosts see.
type guided struct {
	*lab
	t   *testing.T
	dir string
	ran int
}

func (g *guided) write(b guide.Block) {
	g.t.Helper()
	if err := os.WriteFile(filepath.Join(g.dir, b.File()), []byte(b.Text), 0o644); err != nil {
		g.t.Fatal(err)
	}
}

var onHosts = regexp.MustCompile(` +# on (w\d) and (w\d)$`)

// run runs each line of a block, and gives all that they printed.
func (g *guided) run(b guide.Block) string {
	g.t.Helper()
	var printed strings.Builder
	for line := range strings.Lines(b.Text) {
		line = strings.TrimSuffix(line, "\n")
		words := strings.Fields(line)
		if words[0] == "docker" || words[0] == "kubectl" {
			if _, ok := notHere[words[0]+" "+words[1]]; !ok {
				g.t.Errorf("nothing stands for %q: say in this test what does", line)
			}
			continue
		}
		g.ran++
		if m := onHosts.FindStringSubmatch(line); m != nil {
			for _, host := range m[1:] {
				g.agent(host, strings.TrimSuffix(line, m[0]))
			}
			continue
		}
		r := g.command(g.t, g.job(), "bash", "-c", line).Wait(g.t)
		printed.WriteString(r.Stdout + r.Stderr)
		g.t.Logf("$ %s   (ends with %d)\n%s%s", line, r.Code, r.Stdout, r.Stderr)
	}
	return printed.String()
}

// job is a command in the directory, with mpiup on PATH.
func (g *guided) job() job {
	return job{dir: g.dir, env: []string{"PATH=" + filepath.Dir(g.bin) + ":/usr/bin:/bin", "HOME=/root"}}
}

// agent starts a host's agent as the page has it, and waits until it is ready.
func (g *guided) agent(host, line string) {
	g.t.Helper()
	cmd := g.cluster.RunInit(g.t.Context(), host, "bash", "-c", "cd "+g.dir+"; exec "+line)
	cmd.Env = append(os.Environ(), "PATH="+filepath.Dir(g.bin)+":/usr/bin:/bin", "HOME=/root")
	r, err := testlab.Start(cmd)
	if err == nil {
		err = r.Until(r.Stderr, "agent is ready")
	}
	if err != nil {
		g.t.Fatalf("agent on %s: %v", host, err)
	}
	g.t.Cleanup(func() { _ = cmd.Process.Signal(syscall.SIGTERM); <-r.Done })
}

var number = regexp.MustCompile(`\d+(\.\d+)*( (µs|ms|s)\b)?`)

// prints compares lines without their order, numbers and widths of columns. A line … stands for any lines, and … in
// a line for anything.
func prints(t *testing.T, want guide.Block, got string) {
	t.Helper()
	have, more := lines(got), false
	for _, line := range lines(want.Text) {
		if line == "…" {
			more = true
			continue
		}
		like := regexp.MustCompile("^" + strings.ReplaceAll(regexp.QuoteMeta(line), "…", ".*") + "$")
		at := slices.IndexFunc(have, like.MatchString)
		if at < 0 {
			t.Errorf("docs/guide.md:%d: nothing prints %q:\n%s", want.Line, line, got)
			continue
		}
		have = slices.Delete(have, at, at+1)
	}
	if len(have) > 0 && !more {
		t.Errorf("docs/guide.md:%d has not %q", want.Line, have)
	}
}

func lines(text string) (out []string) {
	for line := range strings.Lines(text) {
		out = append(out, number.ReplaceAllString(strings.Join(strings.Fields(line), " "), "N"))
	}
	return out
}
