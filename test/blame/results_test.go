package blame

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
)

// outcome is how a try came out.
type outcome string

const (
	right  outcome = "right"  // the guilty one is named, and nobody else; of a habit: it ended with 0
	nobody outcome = "nobody" // nobody is named
	wrong  outcome = "wrong"  // another one is named; of a habit: it was ended
	other  outcome = "other"  // the guilty one is named, with another kind or exit code than it was
	broken outcome = "broken" // it could not be judged
)

// result is a line of the file of results.
type result struct {
	Scenario, Stack string
	Try, Odd        int
	Outcome         outcome
	Named, Kind     string
	Code            int
	Load            float64 // over a minute, at its end
	Running         int     // processes that could run, at its end
	Seconds         float64
	Commit          string
	Said            string // what the launcher said, where it is not right

	whole string // all that was written
}

func (r result) line() string {
	clean := strings.NewReplacer("\t", " ", "\n", " | ")
	f := []string{r.Scenario, r.Stack, strconv.Itoa(r.Try), strconv.Itoa(r.Odd), string(r.Outcome), r.Named, r.Kind, strconv.Itoa(r.Code),
		fmt.Sprintf("%.1f", r.Load), strconv.Itoa(r.Running), fmt.Sprintf("%.1f", r.Seconds), r.Commit, clean.Replace(r.Said)}
	return strings.Join(f, "\t")
}

func parse(line string) (r result, err error) {
	f := strings.Split(line, "\t")
	if len(f) != 13 {
		return r, fmt.Errorf("a line of %d fields: %.80q", len(f), line)
	}
	r = result{Scenario: f[0], Stack: f[1], Outcome: outcome(f[4]), Named: f[5], Kind: f[6], Commit: f[11], Said: f[12]}
	_, err = fmt.Sscan(strings.Join([]string{f[2], f[3], f[7], f[8], f[9], f[10]}, " "), &r.Try, &r.Odd, &r.Code, &r.Load, &r.Running, &r.Seconds)
	return r, err
}

// results are those of a file, which further ones are added to.
type results struct {
	mu   sync.Mutex
	path string   // "": kept in memory alone
	head string   // the machine
	list []result // guarded by mu
}

// read opens a file of results; it is empty where there is none.
func read(path string) (*results, error) {
	rs := &results{path: path, head: machine()}
	text, err := os.ReadFile(path)
	if err != nil && !os.IsNotExist(err) {
		return nil, err
	}
	for s := bufio.NewScanner(strings.NewReader(string(text))); s.Scan(); {
		if strings.HasPrefix(s.Text(), "# ") {
			rs.head = s.Text()
			continue
		}
		r, err := parse(s.Text())
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		rs.list = append(rs.list, r)
	}
	return rs, nil
}

// has says that a try was made and judged.
func (rs *results) has(scenario, stack string, try int) bool {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	for _, r := range rs.list {
		if r.Scenario == scenario && r.Stack == stack && r.Try == try && r.Outcome != broken {
			return true
		}
	}
	return false
}

// add adds a result, and beside the file all that was written where it is not right.
func (rs *results) add(r result) error {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	rs.list = append(rs.list, r)
	if rs.path == "" {
		return nil
	}
	if r.whole != "" && r.Outcome != right {
		name := strings.ReplaceAll(fmt.Sprintf("%s.%s.%s.%d", rs.path, r.Scenario, r.Stack, r.Try), " ", "_")
		if err := os.WriteFile(name, []byte(r.whole), 0o644); err != nil {
			return err
		}
	}
	f, err := os.OpenFile(rs.path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer f.Close()
	if at, err := f.Seek(0, io.SeekEnd); err == nil && at == 0 {
		fmt.Fprintln(f, rs.head)
	}
	_, err = fmt.Fprintln(f, r.line())
	return err
}

// text is the file.
func (rs *results) text() []byte {
	out := []byte(rs.head + "\n")
	for _, r := range rs.list {
		out = append(out, r.line()+"\n"...)
	}
	return out
}

// machine is what the tries run on.
func machine() string {
	kernel, _ := os.ReadFile("/proc/sys/kernel/osrelease")
	return fmt.Sprintf("# %s, %d cores, Linux %s", runtime.GOARCH, runtime.NumCPU(), strings.TrimSpace(string(kernel)))
}
