package horovodrun

import (
	"fmt"
	"strings"
	"testing"

	"github.com/mpiup/mpiup/test/golden"
)

const head = `# mpiup as horovodrun

<!-- Written from the table in launcher/cli/horovodrun by go test ./launcher/cli/horovodrun -update; change it there. -->

Called ` + "`horovodrun`" + ` (a link or a copy), or as ` + "`mpiup horovodrun ...`" + `, mpiup reads the command line of Horovod's launcher
and starts the job like any other. It needs no ssh, no servers that look for interfaces, and no open key-value server.
The image needs Horovod, and neither ssh nor an mpirun. Ranks meet as Horovod was built, by MPI or by Gloo
([frameworks.md](frameworks.md)); ` + "`--gloo`" + ` and ` + "`--mpi`" + ` say which.

What is other than with Horovod's own: without ` + "`-H` or `--hostfile`" + ` the hosts are those that the pod is told of ([hosts.md](hosts.md)), and only where
there are none this machine; an output line begins with ` + "`[1,RANK]<stdout>:`" + `, as under ` + "`mpirun --tag-output`" + `, with Gloo too. Of the launcher's environment
as much goes along as with ` + "`mpirun --fwd-environment`" + ` ([mpirun.md](mpirun.md)): the ranks' PATH and HOME are their container's.

Levels: **done**, **no effect** (accepted, said with ` + "`--verbose`" + `) and **refused**, an error that says what to use.
What is not listed is an error. A value may stand after ` + "`=`" + `.

| option | values | level | meaning here |
|---|---|---|---|
`

// docs/horovodrun.md has every option.
func TestDocumented(t *testing.T) {
	var b strings.Builder
	b.WriteString(head)
	for _, r := range rows() {
		fmt.Fprintf(&b, "| `%s` | %d | %s | %s |\n", strings.Join(strings.Fields(r.names), "` `"), r.args, r.level, strings.ReplaceAll(r.means, "|", "\\|"))
	}
	golden.Is(t, "../../../docs/horovodrun.md", b.String())
}
