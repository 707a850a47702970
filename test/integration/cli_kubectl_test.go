package integration

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	testlab "github.com/mpiup/mpiup/test/lab"
)

// standIn answers as kubectl does of a namespace with one Job: with the pods that a real one printed, and by running what is to be
// executed in a pod here. NO is a right that the user lacks.
const standIn = `#!/bin/sh
echo "$@" >> %[1]s/asked
case "$*" in
"auth can-i"*pods*--subresource=$NO*) echo no; exit 1;;
"auth can-i"*) echo yes;;
"get pod pi-0-xvwrz "*) cat %[1]s/pod;;
"get pods"*) if [ "$NO" = list ]; then
	echo 'Error from server (Forbidden): pods is forbidden: User "eve" cannot list resource "pods" in API group "" in the namespace "team"' >&2; exit 1
	fi
	case "$*" in *batch*job-name=pi*) cat %[2]s;; *) echo '{"apiVersion": "v1", "items": [], "kind": "List"}';; esac;;
"logs "*) printf '[0] fine\n[1] bad\n';;
"exec "*) while [ "$1" != -- ]; do shift; done; shift 2; exec %[3]s "$@";;
*) exit 9;;
esac
`

// kubectl mpiup runs mpiup in the job's pod by the user's kubectl, and says which right he lacks.
func TestKubectlPlugin(t *testing.T) {
	t.Parallel()
	l := hosted(t)
	dir := t.TempDir()
	recorded, err := filepath.Abs("../../launcher/kubectl/testdata/job.json")
	if err != nil {
		t.Fatal(err)
	}
	var list struct{ Items []json.RawMessage }
	if text, err := os.ReadFile(recorded); err != nil || json.Unmarshal(text, &list) != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"kubectl": fmt.Sprintf(standIn, dir, recorded, l.bin), "asked": "", "pod": string(list.Items[0])} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	plugin := func(path, no string, args ...string) result {
		cmd := exec.Command(l.bin, args...)
		cmd.Args[0] = "kubectl-mpiup"
		cmd.Env = []string{"PATH=" + path + "/usr/bin:/bin", "HOME=/nonexistent", "NO=" + cmp.Or(no, "nothing")}
		return testlab.Run(t, testlab.Bound, cmd)
	}
	for _, c := range []struct {
		no, line, stdout, says, asked string
		code                          int
	}{
		{line: "logs pi --rank 1", stdout: "[1] bad\n", asked: "logs pi-0-xvwrz"},
		{line: "logs pi --rank 7", code: 1},
		{no: "log", line: "why pi", says: "you may not get pods/log", code: 241},
		{no: "log", line: "support pi --list", says: "you may not get pods/log", code: 241},
		{line: "peers pi -n team --hots w0", says: "unknown flag --hots", asked: "exec --namespace=team pi-0-xvwrz -- /usr/local/bin/mpiup peers --hots w0", code: 240},
		{line: "exec pi pi-1 -- -x", says: "pi-1.pi", asked: "exec --stdin pi-0-xvwrz -- /usr/local/bin/mpiup exec pi-1.pi -- -x", code: 244},
		{no: "exec", line: "ps pi -n team", says: "you may not create pods/exec in namespace team", code: 241},
		{no: "log", line: "logs pi", says: "you may not get pods/log", code: 241},
		{no: "list", line: "ps pi", says: "you may not list pods", code: 241},
		{no: "list", line: "ps pi", says: "with --pod NAME the verb get is enough", code: 241},
		{no: "list", line: "logs pi --pod pi-0-xvwrz --rank 1", stdout: "[1] bad\n", asked: "logs pi-0-xvwrz"},
		{no: "list", line: "logs other --pod pi-0-xvwrz", says: "pod pi-0-xvwrz is none of a job other", code: 241},
		{line: "ps nothing", says: "no pods of a MPIJob", code: 241},
		{line: "ps pi -n", says: "-n needs a value; kubectl mpiup --help shows how", code: 240},
	} {
		r := plugin(dir+":", c.no, strings.Fields(c.line)...)
		if r.Code != c.code || r.Stdout != c.stdout || !strings.Contains(r.Stderr, c.says) {
			t.Errorf("%s: code %d, printed %q and %q", c.line, r.Code, r.Stdout, r.Stderr)
		}
		if asked, _ := os.ReadFile(filepath.Join(dir, "asked")); !strings.Contains(string(asked), c.asked) {
			t.Errorf("%s: kubectl was not asked %q:\n%s", c.line, c.asked, asked)
		}
	}
	if r := plugin(dir+":", "", "why", "pi"); r.Code != 1 || !strings.Contains(r.Stdout, "no failure that mpiup knows") || !strings.Contains(r.Stdout, "[1] bad") {
		t.Errorf("why: code %d, printed %q and %q", r.Code, r.Stdout, r.Stderr)
	}
	r := plugin(dir+":", "", "support", "pi", "--list")
	asked, _ := os.ReadFile(filepath.Join(dir, "asked"))
	for _, words := range []string{"doctor -v", "peers -v", "ps"} {
		if !strings.Contains(string(asked), "exec pi-0-xvwrz -- /usr/local/bin/mpiup "+words+"\n") {
			t.Errorf("support: kubectl was not asked for %s:\n%s", words, asked)
		}
	}
	if r.Code != 0 || !strings.Contains(r.Stdout, "verdict.txt") || !strings.Contains(r.Stdout, "peers.txt") {
		t.Errorf("support: code %d, printed %q and %q", r.Code, r.Stdout, r.Stderr)
	}
	if r := plugin("", "", "ps", "pi"); r.Code != 241 || !strings.Contains(r.Stderr, "kubectl") {
		t.Errorf("without kubectl: code %d, %q", r.Code, r.Stderr)
	}
	if r := plugin("", "", "--help"); r.Code != 0 || !strings.Contains(r.Stdout, "kubectl mpiup COMMAND [KIND/]JOB") || !strings.Contains(r.Stdout, "  stacks ") {
		t.Errorf("help: code %d, %q", r.Code, r.Stdout)
	}
}
