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

## Elastic jobs

With ` + "`--min-np`, `--max-np` or `--host-discovery-script`" + ` ranks come and go while the others keep what they have in memory. Horovod's own driver sees to that,
and mpiup does not replace it: mpiup executes Horovod's launcher, by the Python that is to run the program, gives it an ssh that needs no sshd, and tells it who
is there. A line says so. So the launcher's image needs Horovod too.

Who is there is the job's membership: of the hosts of ` + "`-H` or `--hostfile`" + `, else of all that the pod is told of or gossip knows, those whose agents answer
(` + "`mpiup peers --discover`" + `, which Horovod asks each second). A host that is lost leaves the job, and one whose agent comes joins it.

` + "```sh" + `
horovodrun -np 4 --min-np 2 --max-np 8 --network-interface eth0 --blacklist-cooldown-range 5 60 python3 train.py
` + "```" + `

What Horovod 0.28.1 does there, and another driver may do otherwise:

- A rank that was not speaking with the one that is lost learns of it after ` + "`HOROVOD_GLOO_TIMEOUT_SECONDS`" + `, 30; until then all wait. Seen with three ranks.
- A host whose rank failed or was lost never comes back without ` + "`--blacklist-cooldown-range`" + `. One failed rank takes its host's other ranks out of the job.
- Ranks are not in the order of the hosts: the driver keeps them in a set.
- Without ` + "`--network-interface`" + ` it starts servers on two hosts to look for interfaces, and waits until there are two.
- Its key-value server has a port of the launcher's pod, open to everybody who reaches it.
- Exit codes, messages and the lines' ` + "`[RANK]<stdout>:`" + ` are Horovod's: there is no verdict of mpiup's.

` + "`mpiup run --min-np`" + ` ([restart.md](restart.md)) starts all ranks again instead, from their last checkpoint, with mpiup's verdicts and without such a server.

## Options

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
