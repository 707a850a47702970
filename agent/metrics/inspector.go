package metrics

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/mpiup/mpiup/internal/awake"
	"github.com/mpiup/mpiup/internal/bounded"
	"github.com/mpiup/mpiup/internal/scrape"
)

// NCCL's Inspector, a plugin that users switch on, writes how fast each communicator is: every 30 s into a file of its own,
// in Prometheus' text format, for an exporter of the node's (plugins/profiler/inspector/README.md of NCCL 2.29, and RCCL's). A pod has
// none, so a rank is given a folder of its own, and the agent's /metrics shows what it writes there, with rank and pod.
//
// A rank may write anything, and, as ranks are one user, into another's folder. Only Inspector's own names and labels are
// taken, so many and so long as inspectorBounds says.

// The bounds of what is read of ranks' files, for one page.
const (
	inspectorFolder = "nccl-inspector" // in the directory of a session: JOB.RANK/*.prom
	inspectorStale  = 2 * time.Minute  // its files are written anew every 30 s
	inspectorTime   = 5 * time.Second  // for all of them
	inspectorLeave  = 3 * time.Second  // after which no further one is begun
	inspectorRanks  = 1024             // of one session
	inspectorFiles  = 16               // of one rank: one a GPU
	inspectorBytes  = 256 << 10        // of one file: 1,000 a communicator and metric
	inspectorAll    = 16 << 20         // bytes of all files: one file may stand there by very many names
	inspectorRuns   = 256              // sessions of one agent
	inspectorSeries = 8192             // of all
	inspectorText   = 128              // of a label's value
)

// inspectorFamilies are what it writes, and what /metrics says of it.
var inspectorFamilies = map[string]string{
	"nccl_bus_bandwidth_gbs":                 "Bus bandwidth of a communicator's collectives in GB/s, by NCCL's Inspector.",
	"nccl_collective_exec_time_microseconds": "How long a communicator's collectives take, by NCCL's Inspector.",
	"nccl_p2p_bus_bandwidth_gbs":             "Bandwidth of sends and receives in GB/s, by NCCL's Inspector.",
	"nccl_p2p_exec_time_microseconds":        "How long sends and receives take, by NCCL's Inspector.",
}

// inspectorLabels are those of its labels that are shown. The pod's and the rank's are the agent's own.
var inspectorLabels = []string{"gpu", "comm_name", "n_nodes", "nranks", "collective", "p2p_operation", "message_size", "algo_proto"}

// Inspect makes the folders that NCCL's Inspector may write to, for those ranks of a job whose user has switched it on. It returns what a
// rank's number is put behind; "": there are none, or nobody would read there.
func (m *Metrics) Inspect(session string, job uint32, ranks []uint32) (prefix string) {
	if m.cfg.Address == "off" || len(ranks) == 0 {
		return ""
	}
	dir, _ := m.cfg.Host.SessionDir(session)
	if dir == "" {
		m.cfg.Log.Info("NCCL's Inspector is left as it is: the session has no directory, for want of a TMPDIR that can be written to")
		return ""
	}
	prefix = filepath.Join(dir, inspectorFolder, fmt.Sprint(job)+".")
	err, answered := awake.Call(inspectorTime, func() error {
		for _, rank := range ranks {
			if err := os.MkdirAll(prefix+fmt.Sprint(rank), 0o700); err != nil {
				return err
			}
		}
		return nil
	})
	if !answered {
		err = errors.New("its file system does not answer")
	}
	if err != nil {
		m.cfg.Log.Info("NCCL's Inspector is left as it is, since it has no folder to write to", "dir", prefix, "cause", err)
		return ""
	}
	return prefix
}

// inspectorCollector shows what ranks' files say. It describes nothing before: which labels a series has is as its line has it.
type inspectorCollector struct {
	m     *Metrics
	time  time.Duration // that a page waits
	turn  chan struct{} // held by who reads the files
	lacks *atomic.Bool  // they did not answer the last time
}

func newInspectorCollector(m *Metrics) inspectorCollector {
	return inspectorCollector{m, inspectorTime, make(chan struct{}, 1), new(atomic.Bool)}
}

// Describe says nothing, which makes a collector of any series.
func (inspectorCollector) Describe(chan<- *prometheus.Desc) {}

// Collect reads the files of all ranks that have written lately. Where they do not answer the page has the rest of its series, and the log says so once.
func (c inspectorCollector) Collect(to chan<- prometheus.Metric) {
	ctx, cancel := awake.Within(context.Background(), c.time)
	defer cancel()
	samples, answered := awake.InTurn(ctx, c.turn, func() []prometheus.Metric { return c.samples(ctx) })
	if lacked := c.lacks.Swap(!answered); !answered && !lacked {
		c.m.cfg.Log.Warn("/metrics lacks what NCCL's Inspector writes: the file system does not answer; see to its mount, or give the agent another TMPDIR",
			"dir", c.m.cfg.Host.SessionsDir())
	}
	for _, sample := range samples {
		to <- sample
	}
}

// samples are the series of all ranks' files, as far as there is time for them. No folder is followed that is a link.
func (c inspectorCollector) samples(ctx context.Context) (samples []prometheus.Metric) {
	path := c.m.cfg.Host.SessionsDir()
	if bounded.OwnedDir(path) != nil { // another user has made it first, and what is in it
		return nil
	}
	sessions, err := bounded.HoldDir(path)
	if err != nil {
		return nil
	}
	defer sessions.Close()

	ctx, cancel := awake.Within(ctx, inspectorLeave)
	defer cancel()
	bytesLeft := inspectorAll
	for _, session := range firstNames(sessions, inspectorRuns) {
		if !strings.HasPrefix(session, "session-") {
			continue
		}
		folder, err := sessions.Dir(filepath.Join(session, inspectorFolder))
		if err != nil {
			continue
		}
		for _, name := range firstNames(folder, inspectorRanks) {
			own, ok := c.labelsOf(session, name)
			if !ok || ctx.Err() != nil {
				continue
			}
			texts := freshFiles(folder, name, bytesLeft)
			for _, text := range texts {
				bytesLeft -= len(text)
			}
			samples = append(samples, samplesOf(texts, own, inspectorSeries-len(samples))...)
		}
		folder.Close()
	}
	return samples
}

// samplesOf are the series of one rank's files, at most most.
func samplesOf(texts [][]byte, own []string, most int) (samples []prometheus.Metric) {
	seen := map[string]bool{} // a series stands once on a page
	for _, text := range texts {
		for line := range strings.Lines(string(text)) {
			name, labels, value, ok := inspectorLine(strings.TrimSpace(line))
			key := name + strings.Join(labels, "\x00")
			if !ok || seen[key] || len(samples) >= most {
				continue
			}
			seen[key] = true
			samples = append(samples, inspectorSample(name, value, slices.Concat(own, labels)))
		}
	}
	return samples
}

// labelsOf are the labels that a rank's folder in a session's directory gives its series, names and values in turn; false where the folder is no rank's.
func (c inspectorCollector) labelsOf(session, folder string) (labels []string, ok bool) {
	job, rank, ok := strings.Cut(folder, ".")
	if _, err := strconv.ParseUint(rank, 10, 32); err != nil || !ok {
		return nil, false
	}
	_, id, _ := strings.Cut(session, "-")
	run := id[:min(8, len(id))] + "/" + job
	return []string{"rank", rank, "pod", scrape.Text(c.m.cfg.Name), "run", scrape.Text(run)}, true
}

// inspectorSample is a series with these labels, names and values in turn.
func inspectorSample(name string, value float64, labels []string) prometheus.Metric {
	var names, values []string
	for i := 0; i+1 < len(labels); i += 2 {
		names = append(names, labels[i])
		values = append(values, labels[i+1])
	}
	desc := prometheus.NewDesc(name, inspectorFamilies[name], names, nil)
	return scrape.Sample(desc, prometheus.GaugeValue, value, values...)
}

// freshFiles are a rank's files that Inspector has written lately, most bytes of them at most.
func freshFiles(folders *bounded.Dir, name string, most int) (texts [][]byte) {
	folder, err := folders.Dir(name)
	if err != nil {
		return nil
	}
	defer folder.Close()

	oldest := time.Now().Add(-inspectorStale)
	for _, name := range firstNames(folder, 4*inspectorFiles) {
		fi, err := folder.Lstat(name)
		if filepath.Ext(name) != ".prom" || err != nil || fi.ModTime().Before(oldest) || len(texts) == inspectorFiles {
			continue
		}
		limit := min(inspectorBytes, most)
		if fi.Size() > int64(limit) { // nothing of it is read: there may be very many like it
			continue
		}
		if text, err := folder.Regular(name, limit); err == nil {
			texts = append(texts, text)
			most -= len(text)
		}
	}
	return texts
}

// firstNames are names in a folder, sorted, at most so many: anything may have been put there.
func firstNames(folder *bounded.Dir, most int) []string {
	names := folder.Names(most)
	slices.Sort(names)
	return names
}

// inspectorLine reads NAME{LABEL="TEXT",...} NUMBER, and keeps the labels that are shown, in their order.
func inspectorLine(line string) (name string, labels []string, value float64, ok bool) {
	name, rest, ok := strings.Cut(line, "{")
	if !ok || inspectorFamilies[name] == "" {
		return "", nil, 0, false
	}
	given := map[string]string{}
	for !strings.HasPrefix(rest, "}") {
		label, quoted, ok := strings.Cut(rest, `="`)
		end := closing(quoted)
		if !ok || end < 0 || end > inspectorText || len(given) > 4*len(inspectorLabels) {
			return "", nil, 0, false
		}
		given[label] = unquoted.Replace(quoted[:end])
		rest = strings.TrimPrefix(quoted[end+1:], ",")
	}
	value, err := strconv.ParseFloat(strings.TrimSpace(rest[1:]), 64)
	if err != nil {
		return "", nil, 0, false
	}
	for _, label := range inspectorLabels {
		if text, ok := given[label]; ok {
			labels = append(labels, label, scrape.Text(text))
		}
	}
	return name, labels, value, true
}

var unquoted = strings.NewReplacer(`\\`, `\`, `\"`, `"`, `\n`, "\n")

// closing is where the text's quotation mark is that no backslash stands before; -1: nowhere.
func closing(text string) int {
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '"':
			return i
		case '\\':
			i++
		}
	}
	return -1
}
