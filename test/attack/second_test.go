package attack

import (
	"strings"
	"testing"
)

// What a rank has started says that it is that rank, by a connection of its own and by the rank's: it puts values, enters
// barriers, finalizes, aborts the job and leaves requests unfinished, many times, and leaves the connection to what stays.
// The rank goes on with what is its own, the other rank finds nothing else, and the user reads one line. The rank waits for
// it, as one does that calls system(3): over one descriptor whoever reads at the same time takes the other's answers.
func TestProcessesThatSayTheyAreTheRank(t *testing.T) {
	const speak = `
say() { printf '%b' "$1" >&3; }
ask() { say "$1\n"; IFS= read -r -u 3 answer; }
knock() {
  [ -z "$PMI_PORT" ] && return
  exec 3<>"/dev/tcp/127.0.0.1/${PMI_PORT##*:}"
  ask "cmd=initack pmiid=$PMI_ID"
  for n in 1 2 3; do IFS= read -r -u 3 answer; done
}
init='cmd=init pmi_version=1 pmi_subversion=1'
knock
`
	const child = `bash -c "$SPEAK"'
ask "$init"
ask "cmd=put kvsname=$1 key=stolen value=1"
ask "cmd=barrier_in"
ask "cmd=finalize"
ask "cmd=unpublish_name service=own"
say "    99cmd=kvs-put;key=stolen"
say "cmd=abort exitcode=9 message=of_another\n"
say "cmd=put kvsname=$1 key=st"
[ "$2" = 1 ] && sleep 1000 >/dev/null 2>&1 &
:' child "$name"`
	const rank = speak + `
ask "$init"
ask cmd=get_my_kvsname
name=${answer##*kvsname=}
ask "cmd=put kvsname=$name key=own-$PMI_RANK value=of-$PMI_RANK"
ask "cmd=publish_name service=own port=$PMI_RANK"
if [ "$PMI_RANK" = 0 ]; then
  for n in $(seq 20); do ` + child + ` 0; done
  ` + child + ` 1
fi
ask cmd=barrier_in
for key in own-0 own-1 stolen; do
  ask "cmd=get kvsname=$name key=$key"
  echo "rank $PMI_RANK $key: $answer"
done
ask cmd=finalize
echo "rank $PMI_RANK ends: $answer"
`
	for _, protocol := range []string{"pmi1", "pmi-port"} {
		r := mpiup(t, "run", "-n", "2", "--mpi", protocol, "-x", "SPEAK="+speak, "bash", "-c", rank).Fails(t, 0)
		for _, n := range []string{"0", "1"} {
			for _, want := range []string{
				"own-0: cmd=get_result rc=0 found=TRUE value=of-0", "own-1: cmd=get_result rc=0 found=TRUE value=of-1",
				"stolen: cmd=get_result rc=1", "ends: cmd=finalize_ack rc=0",
			} {
				if !strings.Contains(r.Stdout, "rank "+n+" "+want) {
					t.Errorf("%s: without %q rank %s wrote\n%s\n%s", protocol, want, n, r.Stdout, r.Stderr)
				}
			}
		}
		if n := strings.Count(r.Stderr, "is already in MPI as process"); n != 1 {
			t.Errorf("%s: the user reads %d lines of it:\n%s", protocol, n, r.Stderr)
		}
	}
}
