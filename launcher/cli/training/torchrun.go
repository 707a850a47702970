package training

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/mpiup/mpiup/launcher/cli/mpirun/line"
)

// All is the Node of a line that starts the ranks of every node.
const All = -1

// Torchrun is what a command line of torchrun said.
type Torchrun struct {
	Words       []string      // options for launcher/cli/mpirun; none for Help
	Program     []string      // what a rank is, Python in front; ":" among the words begins no other program
	Env         []string      // variables of the ranks
	Nodes       int           // how many the job has, at most where Least is less; 1: this pod alone
	Least       int           // the fewest that it goes on with
	Node        int           // which of them this pod is, or All
	PerNode     int           // ranks of each
	Shown       []int         // local ranks whose output is shown; empty: all
	Grace       time.Duration // what ranks have to end; 0: not said
	MaxRestarts int           // of the ranks, when some have failed
	Join        time.Duration // how long the fewest nodes are waited for; 0: not said
	LastCall    time.Duration // and then others; 0: not said
	Meets       *Endpoint     // where the nodes' torchruns meet, one in each pod; nil: they need not
	Read        line.Parser   // whose Line has Help and Without

	rank                    int // of this node; All: not said
	addr, port, endpoint    string
	c10d, standalone        bool
	role, id                string
	localAddr               string
	timeout                 time.Duration // what torch's static rendezvous calls its join_timeout; 0: not said
	hosts                   *bool         // this node is where the nodes meet, or is not; nil: not said
	module, noPython        bool
	dir, files, tee, wanted string
}

// Endpoint is where the torchruns of a job's pods find each other.
type Endpoint struct {
	Host      string
	Port      uint16
	Static    bool   // rank 0 itself listens there, once all nodes are there; else only node 0's torchrun does
	Hosts     *bool  // this node's torchrun listens there, or does not; nil: its addresses tell
	Number    int    // that this node asks for; All: any
	RunID     string // the same on all nodes
	Role      string
	LocalAddr string // where others reach this node's ranks; "": by the endpoint, or as they reach its torchrun
}

// ParseTorchrun reads the words after the launcher's own name, and then the variables of options that are not among them, by lookup. count is how many
// ranks a word of --nproc-per-node means in this pod: auto, cpu or gpu.
func ParseTorchrun(args []string, lookup func(name string) (string, bool), count func(word string) (int, error)) (Torchrun, error) {
	l := &Torchrun{Nodes: 1, Least: 1, PerNode: 1, rank: All, wanted: "1"}
	rows := l.rows()
	program, err := l.Read.Options(line.Rules{Rows: rows, Hasty: true, Split: split}, args)
	switch {
	case err != nil:
		return Torchrun{}, err
	case l.Read.Line.Help:
		return *l, nil
	}
	for i := range rows {
		r := &rows[i]
		value, ok := lookup(variable(r))
		if !ok || value == "" || l.Read.Given[r.Name()] || r.Args == 0 && value != "1" {
			continue
		}
		if err := l.Read.Take(r, line.Option{Values: []string{value}, Words: []string{variable(r) + "=" + value}}); err != nil {
			return Torchrun{}, err
		}
	}
	return l.finish(program, lookup, count)
}

// split takes a word apart as torchrun does, to which "_" is "-", and "-r3" is "-r 3".
func split(word string) (name, value string, joined bool) {
	name, value, joined = strings.Cut(word, "=")
	if strings.HasPrefix(name, "--") {
		return strings.ReplaceAll(name, "_", "-"), value, joined
	} else if len(name) > 2 {
		return word[:2], word[2:], true
	}
	return name, value, joined
}

// finish is what the line means as a whole.
func (l *Torchrun) finish(program []string, lookup func(string) (string, bool), count func(string) (int, error)) (Torchrun, error) {
	switch {
	case len(program) == 0:
		return Torchrun{}, errors.New("which program? write torchrun --nproc-per-node 4 train.py")
	case l.noPython && l.module:
		return Torchrun{}, errors.New("--no-python and --module exclude each other")
	}
	if l.standalone {
		l.Nodes, l.Least, l.rank, l.addr, l.port, l.endpoint = 1, 1, All, "", "", ""
	}
	if err := cmp.Or(l.which(lookup), l.perNode(count), l.meet()); err != nil {
		return Torchrun{}, err
	}
	switch {
	case l.Meets != nil: // torch's own times
		l.Join = cmp.Or(l.Join, l.timeout, 10*time.Minute)
		l.LastCall = cmp.Or(l.LastCall, 30*time.Second)
	case l.timeout > 0:
		l.Read.Without(fmt.Sprintf("--rdzv-conf timeout=%d", int(l.timeout.Seconds())))
	}
	if l.role != "" {
		l.Env = append(l.Env, "ROLE_NAME="+l.role)
	}
	if l.id != "" {
		l.Env = append(l.Env, "TORCHELASTIC_RUN_ID="+l.id)
	}
	ranks := l.PerNode
	if l.Node == All {
		ranks *= l.Nodes
		l.Words = append(l.Words, "--fwd-environment")
	}
	if l.Least == l.Nodes || l.Meets != nil { // else as many as there are nodes
		l.Words = append(l.Words, "-np", strconv.Itoa(ranks))
	}
	l.Words = append(l.Words, "-npernode", strconv.Itoa(l.PerNode), "--oversubscribe", "-bind-to", "none")
	if err := l.output(); err != nil {
		return Torchrun{}, err
	}
	if !l.noPython {
		python := "python3"
		if p, ok := lookup("PYTHON_EXEC"); ok && p != "" {
			python = p
		}
		l.Program = []string{python} // unbuffered by PYTHONUNBUFFERED, which ranks get
		if l.module {
			l.Program = append(l.Program, "-m")
		}
	}
	l.Program = append(l.Program, program...)
	return *l, nil
}

// replaced are variables that torchrun gives its processes whatever it has of them itself.
var replaced = []string{"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "NODE_RANK", "MASTER_ADDR", "MASTER_PORT", "GROUP_RANK", "GROUP_WORLD_SIZE",
	"ROLE_RANK", "ROLE_WORLD_SIZE", "ROLE_NAME"}

// Inherited is an environment without what an outer launcher says of its processes.
func Inherited(env []string) []string {
	return slices.DeleteFunc(slices.Clone(env), func(kv string) bool {
		name, _, _ := strings.Cut(kv, "=")
		return slices.Contains(replaced, name) || strings.HasPrefix(name, "TORCHELASTIC_")
	})
}

// which finds out what nodes this pod starts the ranks of.
func (l *Torchrun) which(lookup func(string) (string, bool)) error {
	number := func(name string) int {
		text, _ := lookup(name)
		n, err := strconv.Atoi(text)
		if err != nil {
			return -1
		}
		return n
	}
	// mpirun -npernode 1 torchrun ...: the launcher outside has numbered the hosts, and ends all when one fails.
	outside := number("MPIUP_SIZE") == l.Nodes && number("MPIUP_LOCAL_SIZE") == 1 && l.Least == l.Nodes
	switch {
	case l.Nodes == 1:
		l.Node = 0
	case outside && l.rank >= 0:
		l.Node = l.rank
	case outside:
		l.Node = number("MPIUP_RANK")
	case l.addr != "" || l.endpoint != "":
		l.Node = max(l.rank, 0) // until the nodes have met
		l.Meets = &Endpoint{Number: l.rank}
	case l.rank >= 0:
		l.Node = l.rank
	default:
		l.Node = All
	}
	if l.rank >= l.Nodes || l.Node >= l.Nodes || l.Node < All {
		return fmt.Errorf("--node-rank %d: with --nnodes %s the nodes are 0 to %d", max(l.rank, l.Node), l.nodesText(), l.Nodes-1)
	}
	return nil
}

func (l *Torchrun) nodesText() string {
	if l.Least == l.Nodes {
		return strconv.Itoa(l.Nodes)
	}
	return fmt.Sprintf("%d:%d", l.Least, l.Nodes)
}

func (l *Torchrun) perNode(count func(string) (int, error)) (err error) {
	if n, e := strconv.Atoi(l.wanted); e == nil {
		l.PerNode = n
	} else if l.Node == All {
		return fmt.Errorf("--nproc-per-node %s: the hosts' processors are not counted before the start; "+
			"write the number, or use mpiup run, whose hosts have slots", l.wanted)
	} else if l.PerNode, err = count(l.wanted); err != nil {
		return fmt.Errorf("--nproc-per-node %s: %w", l.wanted, err)
	}
	if l.PerNode < 1 || l.PerNode*l.Nodes > maxRanks {
		return fmt.Errorf("--nproc-per-node %d: that is no number of ranks", l.PerNode)
	}
	return nil
}

// The most nodes and ranks that a line may ask for.
const (
	maxNodes = 1 << 16
	maxRanks = 1 << 20
)

// meet says where the ranks meet, unless that is for the run to find.
func (l *Torchrun) meet() error {
	addr, port := l.addr, l.port
	if l.endpoint != "" {
		addr, port = hostPort(l.endpoint)
	}
	if port == "" && l.c10d && (l.endpoint != "" || l.Meets != nil) {
		port = "29400"
	}
	if l.Nodes == 1 && (l.c10d || port == "" || port == "0") { // as torchrun, which takes any free port
		return nil
	}
	if l.Node != All {
		switch {
		case addr == "" && l.Nodes == 1:
			addr = "127.0.0.1"
		case addr == "":
			return fmt.Errorf("where is node 0? each node's torchrun needs --master-addr or --rdzv-endpoint, or PET_MASTER_ADDR")
		case port == "":
			port = "29500"
		}
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if port != "" && (err != nil || n == 0) {
		return fmt.Errorf("%.60s is no port where nodes can meet", port)
	}
	if l.Meets != nil {
		return l.meets(addr, uint16(n))
	}
	if l.Node != All {
		l.Env = append(l.Env, "MASTER_ADDR="+addr)
	}
	if port != "" {
		l.Env = append(l.Env, "MASTER_PORT="+port)
	}
	return nil
}

// meets completes where the nodes' torchruns find each other.
func (l *Torchrun) meets(host string, port uint16) error {
	const mostWord, mostName = 4 << 10, 253 // launcher/rendezvous carries no longer ones
	if len(l.id) > mostWord || len(l.role) > mostWord {
		return fmt.Errorf("--rdzv-id and --role have at most %d bytes where nodes tell each other", mostWord)
	}
	if len(l.localAddr) > mostName || len(host) > mostName {
		return fmt.Errorf("%.60s...: a host's name has at most %d bytes", cmp.Or(l.localAddr, host), mostName)
	}
	l.Meets.Host, l.Meets.Port = host, port
	l.Meets.Static = !l.c10d
	l.Meets.Hosts = l.hosts
	if l.Meets.Static && l.rank >= 0 { // torch's static rendezvous knows no other
		zero := l.rank == 0
		l.Meets.Hosts = &zero
	}
	l.Meets.RunID = cmp.Or(l.id, "none")
	l.Meets.Role = cmp.Or(l.role, "default")
	l.Meets.LocalAddr = l.localAddr
	return nil
}

// hostPort is HOST:PORT, HOST, or an IPv6 address in brackets.
func hostPort(endpoint string) (host, port string) {
	host = endpoint
	if i := strings.LastIndexByte(endpoint, ':'); i >= 0 && (strings.Count(endpoint, ":") == 1 || strings.HasPrefix(endpoint, "[") && endpoint[i-1] == ']') {
		host, port = endpoint[:i], endpoint[i+1:]
	}
	return strings.Trim(host, "[]"), port
}

// output is where files with the ranks' output go.
func (l *Torchrun) output() error {
	files, err := l.streams("--redirects", l.files)
	if err != nil {
		return err
	}
	tee, err := l.streams("--tee", l.tee)
	if err != nil {
		return err
	}
	switch {
	case !files && !tee:
		return nil
	case l.dir == "":
		return errors.New("--redirects and --tee write files: say where with --log-dir")
	case tee:
		l.Words = append(l.Words, "--tag-output", "--output-filename", l.dir+":nojobid")
	default:
		l.Words = append(l.Words, "--output-filename", l.dir+":nojobid,nocopy")
	}
	return nil
}

// streams reads 3, or 0:3,1:3: which of a local rank's streams are meant.
func (l *Torchrun) streams(option, text string) (all bool, err error) {
	switch text {
	case "", "0":
		return false, nil
	case "3":
		return true, nil
	}
	concerned := 0 // local ranks
	for part := range strings.SplitSeq(text, ",") {
		local, which, ok := strings.Cut(part, ":")
		n, err := strconv.ParseUint(local, 10, 16)
		if !ok || err != nil || !slices.Contains([]string{"0", "1", "2", "3"}, which) {
			concerned = 1
			break
		}
		if int(n) < l.PerNode && which != "0" {
			concerned++
		}
	}
	if concerned > 0 {
		return false, fmt.Errorf("%s %.60s: 3, both streams of all ranks, is what there is; or take files apart with mpiup run --output-dir", option, text)
	}
	return false, nil
}
