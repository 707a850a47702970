package metrics

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

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
	prefix = filepath.Join(dir, inspectorFolder, fmt.Sprint(job)+".")
	for _, rank := range ranks {
		if err := os.MkdirAll(prefix+fmt.Sprint(rank), 0o700); dir == "" || err != nil {
			m.cfg.Log.Info("NCCL's Inspector is left as it is, since it has no folder to write to", "dir", prefix, "cause", err)
			return ""
		}
	}
	return prefix
}

// inspectorCollector shows what ranks' files say. It describes nothing before: which labels a series has is as its line has it.
type inspectorCollector struct{ m *Metrics }

func newInspectorCollector(m *Metrics) inspectorCollector { return inspectorCollector{m} }

// Describe says nothing, which makes a collector of any series.
func (inspectorCollector) Describe(chan<- *prometheus.Desc) {}

// Collect reads the files of all ranks that have written lately.
func (c inspectorCollector) Collect(to chan<- prometheus.Metric) {
	var folders []string
	sessions := c.m.cfg.Host.SessionsDir()
	for _, session := range firstNames(sessions, inspectorRuns) {
		if !strings.HasPrefix(session, "session-") {
			continue
		}
		folder := filepath.Join(sessions, session, inspectorFolder)
		for _, name := range firstNames(folder, inspectorRanks) {
			folders = append(folders, filepath.Join(folder, name))
		}
	}

	left := inspectorSeries
	bytesLeft := inspectorAll
	for _, folder := range folders {
		own, ok := c.labelsOf(folder)
		if !ok {
			continue
		}

		seen := map[string]bool{} // a series stands once on a page
		for _, text := range freshFiles(folder, bytesLeft) {
			bytesLeft -= len(text)
			for line := range strings.Lines(string(text)) {
				name, labels, value, ok := inspectorLine(strings.TrimSpace(line))
				key := name + strings.Join(labels, "\x00")
				if !ok || seen[key] || left == 0 {
					continue
				}
				seen[key] = true
				left--
				to <- inspectorSample(name, value, slices.Concat(own, labels))
			}
		}
	}
}

// labelsOf are the labels that a rank's folder gives its series, names and values in turn; false where the folder is no rank's.
func (c inspectorCollector) labelsOf(folder string) (labels []string, ok bool) {
	job, rank, ok := strings.Cut(filepath.Base(folder), ".")
	if _, err := strconv.ParseUint(rank, 10, 32); err != nil || !ok {
		return nil, false
	}
	_, session, _ := strings.Cut(filepath.Base(filepath.Dir(filepath.Dir(folder))), "-")
	run := session[:min(8, len(session))] + "/" + job
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
func freshFiles(folder string, most int) (texts [][]byte) {
	oldest := time.Now().Add(-inspectorStale)
	for _, name := range firstNames(folder, 4*inspectorFiles) {
		path := filepath.Join(folder, name)
		fi, err := os.Lstat(path)
		if filepath.Ext(name) != ".prom" || err != nil || fi.ModTime().Before(oldest) || len(texts) == inspectorFiles {
			continue
		}
		limit := min(inspectorBytes, most)
		if fi.Size() > int64(limit) { // nothing of it is read: there may be very many like it
			continue
		}
		if text, err := bounded.Regular(path, limit); err == nil {
			texts = append(texts, text)
			most -= len(text)
		}
	}
	return texts
}

// firstNames are names in a folder, sorted, at most so many: anything may have been put there.
func firstNames(folder string, most int) []string {
	names := bounded.Names(folder, most)
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
