package integration

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/mpiup/mpiup/test/need"
)

// Each row of docs/data/mpirun-*.tsv that is "done" has lines in testdata/likereal that would come out otherwise if it did nothing:
//
//	= --map-by                                       a row, by one of its names
//	4,5    out  ( --map-by node ) -H w0:2,w1:2 -np 2 @where
//	5      out  ( --output tag | --output merge ) -np 1 echo a
//	4      none ( --display map ) -np 1 true         the real one has no such option
//
// Before a line stand the families in which it is tried, and what is compared. What is in brackets is the option. Without it, or with what stands behind
// the bar, the real launcher's answer is another one: else the line would prove nothing. Words that begin with "@" are files of the lab; NAME=value
// before the first word is a variable, and "<TEXT" is standard input. Lines that name w0 or w1 run over two hosts, the others here.

// likeRow is one line of such a file.
type likeRow struct {
	at       string // file and line number
	row      string // the option, parameter or variable
	families []string
	aspect   string // what is compared
	text     string // the line as it is written
	with     []string
	without  []string
}

// The aspects of a run that are compared.
const (
	aspectOut   = "out"   // lines of standard output in order, and success
	aspectCode  = "code"  // the exit code
	aspectErr   = "err"   // lines of standard error about bindings and maps, and success
	aspectFiles = "files" // files of the working directory with what is in them, and standard output
	aspectLeft  = "left"  // files of the working directory alone, and success
	aspectFails = "fails" // that it fails, where it does not without the option
	aspectNone  = "none"  // the real one has no such option, and fails
	aspectShown = "shown" // elsewhere: this machine may not have what it takes. The file of the repository, and a word that it has
	aspectOurs  = "ours"  // of mpiup alone: with the option it answers otherwise than without, on either stream
)

// likeFiles are the files of lines, each with the tables of docs/data whose rows it has, and the families that these are of.
var likeFiles = []struct {
	name, table string
	families    []string
}{
	{"openmpi", "mpirun-openmpi.tsv", []string{"4", "5"}},
	{"parameters", "mpirun-parameters.tsv", []string{"4", "5"}},
	{"hydra", "mpirun-hydra.tsv", []string{"mpich", "intel"}},
	{"variables", "mpirun-variables.tsv", []string{"mpich", "intel"}},
}

// readLikeRows reads the lines of one file.
func readLikeRows(t *testing.T, name string) (rows []likeRow) {
	t.Helper()
	path := filepath.Join("testdata/likereal", name+".txt")
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	row, number := "", 0
	for one := range strings.Lines(string(text)) {
		number++
		one = strings.TrimSpace(one)
		at := fmt.Sprintf("%s:%d", path, number)
		switch {
		case one == "", one[0] == '#':
		case strings.HasPrefix(one, "= "):
			row = strings.TrimSpace(one[1:])
		default:
			rows = append(rows, readLikeRow(t, at, row, one))
		}
	}
	return rows
}

// readLikeRow reads one line.
func readLikeRow(t *testing.T, at, row, text string) likeRow {
	t.Helper()
	families, rest, _ := strings.Cut(text, " ")
	aspect, line, _ := strings.Cut(strings.TrimSpace(rest), " ")
	r := likeRow{at: at, row: row, families: strings.Split(families, ","), aspect: aspect, text: strings.TrimSpace(line)}
	inside, behind := false, false
	for _, word := range shellWords(t, at, r.text) {
		switch {
		case word == "(":
			inside = true
		case word == "|" && inside:
			behind = true
		case word == ")":
			inside, behind = false, false
		case behind:
			r.without = append(r.without, word)
		case inside:
			r.with = append(r.with, word)
		default:
			r.with = append(r.with, word)
			r.without = append(r.without, word)
		}
	}
	if row == "" || inside || slices.Equal(r.with, r.without) {
		t.Fatalf("%s: a line stands below its row, and has the option in brackets: %s", at, text)
	}
	return r
}

// shellWords splits a line at blanks; what stands in single quotes is part of one word.
func shellWords(t *testing.T, at, line string) (words []string) {
	t.Helper()
	word, some, quoted := "", false, false
	for _, c := range line {
		switch {
		case c == '\'':
			quoted, some = !quoted, true
		case c == ' ' && !quoted:
			if some {
				words = append(words, word)
			}
			word, some = "", false
		default:
			word += string(c)
			some = true
		}
	}
	if quoted {
		t.Fatalf("%s: a quote is open", at)
	}
	if some {
		words = append(words, word)
	}
	return words
}

// doneRows are the names of the rows of a table that are done, each with the families that have it.
func doneRows(t *testing.T, table string, families []string) map[string][]string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("../../docs/data", table))
	if err != nil {
		t.Fatal(err)
	}
	rows := map[string][]string{}
	for i, one := range strings.Split(strings.TrimSpace(string(text)), "\n") {
		cells := strings.Split(one, "\t")
		level, of := cells[1], cells[2]
		if strings.HasSuffix(table, "openmpi.tsv") || strings.HasSuffix(table, "hydra.tsv") {
			level, of = cells[2], strings.Join(families, " ")
		}
		if i > 0 && level == "done" {
			rows[cells[0]] = strings.Fields(of)
		}
	}
	if len(rows) == 0 {
		t.Fatalf("%s has no rows that are done", table)
	}
	return rows
}

// Each row that is done has a line in each family that has it, and each line has a row that is done.
func TestEachDoneRowHasALine(t *testing.T) {
	aspects := []string{aspectOut, aspectCode, aspectErr, aspectFiles, aspectLeft, aspectFails, aspectNone, aspectShown, aspectOurs}
	for _, file := range likeFiles {
		lines := readLikeRows(t, file.name)
		tried := map[string]bool{} // name of an option, a blank, the family
		for _, r := range lines {
			for _, family := range r.families {
				tried[r.row+" "+family] = true
				if !slices.Contains(file.families, family) {
					t.Errorf("%s: %s is no family of %s", r.at, family, file.table)
				}
			}
			if !slices.Contains(aspects, r.aspect) {
				t.Errorf("%s: %q is nothing that is compared", r.at, r.aspect)
			}
		}
		known := map[string]bool{}
		for names, families := range doneRows(t, file.table, file.families) {
			for _, name := range strings.Fields(names) {
				known[name] = true
			}
			for _, family := range families {
				if file.name == "parameters" && !knowsOne(t, family, strings.Fields(names)) {
					continue
				}
				if !slices.ContainsFunc(strings.Fields(names), func(name string) bool { return tried[name+" "+family] }) {
					t.Errorf("%s: %s is done, and testdata/likereal/%s.txt has no line that shows it for %s", file.table, names, file.name, family)
				}
			}
		}
		for _, r := range lines {
			if !known[r.row] {
				t.Errorf("%s: %s has no row that is done in %s", r.at, r.row, file.table)
			}
		}
	}
}

// knowsOne says that a version of Open MPI has one of some parameters.
func knowsOne(t *testing.T, version string, names []string) bool {
	t.Helper()
	text, err := os.ReadFile("../../launcher/cli/mpirun/testdata/params-openmpi" + version + ".txt")
	if err != nil {
		t.Fatal(err)
	}
	known := strings.Fields(string(text))
	return slices.ContainsFunc(names, func(name string) bool { return slices.Contains(known, name) })
}

// realLauncher is one whose lines are compared.
type realLauncher struct {
	argv []string           // the real one
	name string             // by which mpiup is called
	env  []string           // of both
	ours []string           // of mpiup
	need func(t *testing.T) // says where it is not installed
}

// realLaunchers are those of the four families.
func (l *lab) realLaunchers() map[string]realLauncher {
	root := []string{"OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1"}
	five, intel := filepath.Join(l.openMPI5(), "bin/mpirun"), filepath.Join(l.intelMPI(), "bin/mpiexec.hydra")
	return map[string]realLauncher{
		"4": {
			argv: []string{"/usr/bin/mpirun.openmpi"}, name: "mpirun", env: root, ours: []string{"MPIUP_FAMILY=openmpi4"},
			need: func(t *testing.T) { need.Program(t, "mpirun.openmpi", "openmpi-bin") },
		},
		"5": {
			argv: []string{five}, name: "mpirun", env: root, ours: []string{"MPIUP_FAMILY=openmpi5"},
			need: func(t *testing.T) { need.File(t, "wheels", five, "run test/wheels.sh") },
		},
		"mpich": {
			argv: []string{"/usr/bin/mpiexec.mpich"}, name: "mpiexec", ours: []string{"MPIUP_FAMILY=mpich"},
			need: func(t *testing.T) { need.MPICH(t) },
		},
		"intel": {
			argv: []string{intel}, name: "mpiexec", env: []string{"I_MPI_ROOT=" + l.intelMPI(), "I_MPI_HYDRA_BOOTSTRAP=ssh"},
			ours: []string{"MPIUP_FAMILY=intel"},
			need: func(t *testing.T) { need.File(t, "intel", intel, "run test/wheels.sh intel") },
		},
	}
}

// intelMPI is where test/wheels.sh puts Intel MPI.
func (l *lab) intelMPI() string { return filepath.Join(filepath.Dir(l.venv), "impi") }

// answer is what came of a line, as far as it is compared.
type answer struct {
	text string // of the aspect
	ok   bool
	all  string // for messages
}

// likeLab runs lines.
type likeLab struct {
	*lab
	files map[string]string // by their names in lines

	binding sync.Mutex // held by a run that binds ranks: an agent gives no CPU twice

	mu      sync.Mutex
	answers map[string]func() answer // of the real ones, by family and line; guarded by mu
}

// answerOf is what a real launcher answers; each line is run once.
func (l *likeLab) answerOf(t *testing.T, family string, real realLauncher, aspect string, words []string) answer {
	t.Helper()
	key := family + "\x00" + aspect + "\x00" + strings.Join(words, "\x00")
	l.mu.Lock()
	run, known := l.answers[key]
	if !known {
		run = sync.OnceValue(func() answer { return l.runLine(t, real.argv, real.env, aspect, words) })
		l.answers[key] = run
	}
	l.mu.Unlock()
	return run()
}

// fileWord is a file of the lab within a word.
var fileWord = regexp.MustCompile(`@[a-z0-9]+`)

// runLine runs a line with one launcher.
func (l *likeLab) runLine(t *testing.T, launcher, env []string, aspect string, words []string) answer {
	t.Helper()
	dir := l.folder(t)
	if err := os.WriteFile(filepath.Join(dir, "data"), []byte("content\n"), 0o644); err != nil {
		t.Error(err)
	}
	links := filepath.Dir(l.key)
	j := job{dir: dir, stdin: strings.NewReader("")}
	j.env = append([]string{"PATH=" + links + ":/usr/local/bin:/usr/bin:/bin", "HOME=" + dir}, env...)
	argv := slices.Clone(launcher)
	over := false // hosts
	for _, word := range words {
		word = fileWord.ReplaceAllStringFunc(word, func(name string) string {
			if path, known := l.files[name[1:]]; known {
				over = over || strings.HasPrefix(name, "@hosts") || name == "@home4" || name == "@home5"
				return path
			}
			return name
		})
		over = over || hostWord.MatchString(word)
		text, input := strings.CutPrefix(word, "<")
		switch name, _, set := strings.Cut(word, "="); {
		case input:
			j.stdin = strings.NewReader(text + "\n")
		case set && len(argv) == len(launcher) && variableName.MatchString(name):
			j.env = append(j.env, word)
		default:
			argv = append(argv, word)
		}
	}
	if over {
		j.env = append(j.env, "MPIUP_KEY="+l.key)
	}
	if bindingWord.MatchString(strings.Join(words, " ")) {
		l.binding.Lock()
		defer l.binding.Unlock()
	}
	r, hung := l.bounded(t, j, argv)
	if hung || r.Code == 128+int(syscall.SIGPIPE) {
		// Open MPI 5.0.11 hangs at its end once in some hundred runs, and Hydra 5.0.2 writes to a proxy of its own that has gone.
		r, _ = l.bounded(t, j, argv)
	}
	return answer{text: aspectOf(t, aspect, r, dir), ok: r.Code == 0, all: fmt.Sprintf("%d: %s%s", r.Code, r.Stdout, r.Stderr)}
}

// hangsAfter is how long a line may take, with four at once on two cores.
const hangsAfter = 40 * time.Second

// bounded is what comes of a command that is killed when it hangs.
func (l *likeLab) bounded(t *testing.T, j job, argv []string) (came result, hung bool) {
	t.Helper()
	r := l.command(t, j, argv...)
	select {
	case <-r.Done:
	case <-time.After(hangsAfter):
		hung = true
		_ = r.Cmd.Process.Kill() // it may have ended just now
		<-r.Done
	}
	return r.Wait(t), hung
}

var (
	hostWord     = regexp.MustCompile(`\bw[01]\b`)
	bindingWord  = regexp.MustCompile(`(?i)bind|@cpus|cpu-|core|socket|rankf`)
	variableName = regexp.MustCompile(`^[A-Z][A-Za-z0-9_]*$`)
)

// aspectOf is one aspect of a run.
func aspectOf(t *testing.T, aspect string, r result, dir string) string {
	t.Helper()
	success := fmt.Sprintf("success %v\n", r.Code == 0)
	switch aspect {
	case aspectCode:
		return fmt.Sprintf("code %d", r.Code)
	case aspectFails, aspectNone:
		return success
	case aspectOurs:
		return success + comparable(inOrder(r.Stdout+r.Stderr))
	case aspectErr:
		var lines string
		for one := range strings.Lines(r.Stderr) {
			if aboutPlaces.MatchString(one) {
				lines += one
			}
		}
		return success + comparable(inOrder(lines))
	case aspectLeft:
		return success + comparable(filesBelow(t, dir))
	case aspectFiles:
		return success + comparable(inOrder(r.Stdout)) + comparable(filesBelow(t, dir))
	}
	return success + comparable(inOrder(withoutBanner(r.Stdout)))
}

// banner are lines that Hydra's launchers write about a job's end where its output goes; mpiup's go to standard error.
var banner = regexp.MustCompile(`(?m)^(=.*|YOUR APPLICATION TERMINATED.*|This typically refers.*|Please see the FAQ.*)?\n`)

func withoutBanner(text string) string {
	if !strings.Contains(text, "TERMINAT") {
		return text
	}
	return banner.ReplaceAllString(text, "")
}

// aboutPlaces are lines about where ranks are.
var aboutPlaces = regexp.MustCompile(`(?i)bound to|binding|rank-?map|Process rank`)

// What differs from run to run.
var volatile = []struct {
	pattern *regexp.Regexp
	stands  string
}{
	{regexp.MustCompile(`\[\d+,1\]`), "[JOB,1]"},
	{regexp.MustCompile(`prterun-[a-z0-9.-]+-\d+@1`), "prterun-HOST-PID@1"},
	{regexp.MustCompile(`\[(w[01]|launcher)(\.[a-z0-9.-]+)?:\d+\]`), "[HOST:PID]"},
	{regexp.MustCompile(`[A-Z][a-z]{2} [A-Z][a-z]{2} +\d+ \d\d:\d\d:\d\d \d{4}`), "TIME"},
	{regexp.MustCompile(`\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(\.\d+)?`), "TIME"},
}

// comparable is a text without what differs from run to run.
func comparable(text string) string {
	for _, v := range volatile {
		text = v.pattern.ReplaceAllString(text, v.stands)
	}
	return text
}

// filesBelow are the files of a directory with what is in them.
func filesBelow(t *testing.T, dir string) (list string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		name, _ := filepath.Rel(dir, path)
		list += fmt.Sprintf("%s: %q\n", name, text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// likeFilesOfLab are files that lines name with "@".
var likeFilesOfLab = map[string]string{
	"where":    "#!/bin/sh\necho ${OMPI_COMM_WORLD_RANK:-${PMI_RANK:-$MPIUP_RANK}} $(hostname)\n",
	"cpus":     "#!/bin/sh\necho ${OMPI_COMM_WORLD_RANK:-${PMI_RANK:-$MPIUP_RANK}} $(hostname) $(grep Cpus_allowed_list /proc/self/status)\n",
	"rank":     "#!/bin/sh\necho ${OMPI_COMM_WORLD_RANK:-${PMI_RANK:-$MPIUP_RANK}}\n",
	"fails":    "#!/bin/sh\n[ ${OMPI_COMM_WORLD_RANK:-${PMI_RANK:-$MPIUP_RANK}} = 0 ] || exit 3\nsleep 1\necho on\n",
	"once":     "#!/bin/sh\n[ -e $HOME/once ] && { echo again; exit 0; }\ntouch $HOME/once\nexit 1\n",
	"hosts":    "w0 slots=2\nw1 slots=2\n",
	"hostsh":   "w0:2\nw1:2\n",
	"here":     "localhost slots=2\n",
	"bare":     "localhost\n",
	"hostsseq": "w1\nw0\nw1\n",
	"apps":     "-np 1 echo a\n-np 1 echo b\n",
	"config":   "-n 1 echo a\n-n 2 echo b\n",
	"options":  "-n 3 -l\n",
	"tuned":    "-x V=1\n",
	"place":    "#!/bin/sh\ncase $PWD in */test-*) echo there ;; *) echo elsewhere ;; esac\n",
	"dies":     "#!/bin/sh\n[ ${OMPI_COMM_WORLD_RANK:-${PMI_RANK:-$MPIUP_RANK}} = 0 ] || kill -9 $$\nsleep 1\necho on\n",
	"params":   "orte_tag_output = 1\n",
	"params5":  "map_by = ppr:1:node\n",
	"rankf":    "rank 0=w1 slot=0\nrank 1=w0 slot=1\n",
	"tools":    "env A=1:1\n",

	"home4/.openmpi/mca-params.conf": "orte_default_hostfile = @hosts\n",
	"home5/.prte/mca-params.conf":    "prte_default_hostfile = @hosts\n",
	"homeh/.mpiexec.hydra.conf":      "-n 3 -l\n",
	"homei/.mpiexec.conf":            "-l\n",
}

// sampleFor is how long lines are begun where not all are asked for.
const sampleFor = 2 * time.Minute

// MPIUP_LIKEREAL=all runs all lines, and a part of a row's or line's text those with it; else a sample runs for two
// minutes, in an order that MPIUP_LIKEREAL_SEED changes.
func TestLikeTheRealRowByRow(t *testing.T) {
	t.Parallel()
	l := &likeLab{lab: hosted(t), files: map[string]string{}, answers: map[string]func() answer{}}
	launchers := l.realLaunchers()
	l.link(t, "ssh")
	l.makeFiles(t)
	rows := chosenRows(t)
	differing := differingLines(t)
	end := time.Now().Add(sampleFor)
	for _, r := range rows {
		for _, family := range r.families {
			real := launchers[family]
			t.Run(family+" "+r.row+" "+r.text, func(t *testing.T) {
				t.Parallel()
				if os.Getenv("MPIUP_LIKEREAL") == "" && time.Now().After(end) {
					return // the sample is over
				}
				real.need(t)
				l.compareRow(t, family, real, r, differing)
			})
		}
	}
}

// makeFiles makes what lines name with "@": the files, their directory, homes, and prefixes below which Open MPI is installed.
func (l *likeLab) makeFiles(t *testing.T) {
	t.Helper()
	dir := l.folder(t)
	must := func(err error) {
		if err != nil {
			t.Fatal(err)
		}
	}
	for name, text := range likeFilesOfLab {
		path := filepath.Join(dir, name)
		must(os.MkdirAll(filepath.Dir(path), 0o755))
		must(os.WriteFile(path, []byte(strings.ReplaceAll(text, "@hosts", filepath.Join(dir, "hosts"))), 0o755))
		first, _, _ := strings.Cut(name, "/")
		l.files[first] = filepath.Join(dir, first)
	}
	for name, to := range map[string]string{"prefix4/bin": "/usr/bin", "prefix4/lib": "/usr/lib/x86_64-linux-gnu", "prefix5": l.openMPI5()} {
		path := filepath.Join(dir, name)
		must(os.MkdirAll(filepath.Dir(path), 0o755))
		must(os.Symlink(to, path))
	}
	l.files["prefix4"], l.files["prefix5"], l.files["dir"] = filepath.Join(dir, "prefix4"), filepath.Join(dir, "prefix5"), dir
	l.files["universe"] = l.program(t, "universe")
}

// chosenRows are the lines that are to run.
func chosenRows(t *testing.T) (rows []likeRow) {
	t.Helper()
	only := os.Getenv("MPIUP_LIKEREAL")
	for _, file := range likeFiles {
		for _, r := range readLikeRows(t, file.name) {
			if only == "" || only == "all" || r.row == only || strings.Contains(r.at+" "+r.text, only) {
				rows = append(rows, r)
			}
		}
	}
	if only == "" { // all mixed
		slices.SortFunc(rows, func(a, b likeRow) int { return cmp.Compare(a.place(), b.place()) })
	}
	return rows
}

// place is where a line stands among those that are mixed.
func (r *likeRow) place() uint64 {
	h := fnv.New64a()
	_, _ = fmt.Fprint(h, os.Getenv("MPIUP_LIKEREAL_SEED"), r.at, r.text) // of a hash never an error
	return h.Sum64()
}

// unknownOption is what the real launchers say of an option that they do not have.
var unknownOption = regexp.MustCompile(`(?i)unknown option|unrecognized (option|argument)`)

// compareRow runs one line with and without its option.
func (l *likeLab) compareRow(t *testing.T, family string, real realLauncher, r likeRow, differing map[string]bool) {
	t.Helper()
	ours := realLauncher{argv: []string{l.link(t, real.name)}, env: slices.Concat(real.env, real.ours)}
	switch r.aspect {
	case aspectNone:
		if there := l.answerOf(t, family, real, r.aspect, r.with); there.ok {
			t.Errorf("%s: the real one of %s takes it:\n%.600s", r.at, family, there.all)
		}
		return
	case aspectShown:
		text, err := os.ReadFile(filepath.Join("../..", r.with[0]))
		if err != nil || !strings.Contains(string(text), r.with[1]) {
			t.Errorf("%s: %s does not show %s: %v", r.at, r.with[0], r.with[1], err)
		}
		return
	case aspectOurs:
		with, without := l.runLine(t, ours.argv, ours.env, r.aspect, r.with), l.runLine(t, ours.argv, ours.env, r.aspect, r.without)
		if with.text == without.text {
			t.Errorf("%s: the option changes nothing:\n%.600s", r.at, with.all)
		}
		return
	}
	there, control := l.answerOf(t, family, real, r.aspect, r.with), l.answerOf(t, family, real, r.aspect, r.without)
	told := differing[family+" "+r.text]
	if unknownOption.MatchString(there.all) {
		t.Errorf("%s: the real one of %s does not know the option:\n%.600s", r.at, family, there.all)
	}
	if there.text == control.text && !told {
		t.Errorf("%s: the option changes nothing with the real one, so the line proves nothing:\n%.600s\n%.600s", r.at, there.all, control.all)
	}
	here := l.runLine(t, ours.argv, ours.env, r.aspect, r.with)
	switch {
	case here.text != there.text && !told:
		t.Errorf("%s: in %s the real one says\n%.600s\n(%.600s)\nand mpiup\n%.600s\n(%.600s)\nIf it has to differ, docs/mpirun.md says why", r.at, family, there.text, there.all, here.text, here.all)
	case here.text == there.text && told:
		t.Errorf("%s: it is alike in %s, and docs/mpirun.md says that it differs", r.at, family)
	case told && here.text == l.runLine(t, ours.argv, ours.env, r.aspect, r.without).text:
		t.Errorf("%s: the option changes nothing:\n%.600s", r.at, here.all)
	}
}

// differingLines are those of docs/mpirun.md's table of lines that differ, each with its family before it.
func differingLines(t *testing.T) map[string]bool {
	t.Helper()
	text, err := os.ReadFile("../../docs/mpirun.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, found := strings.Cut(string(text), "| line | family | why it differs |\n")
	if !found {
		t.Fatal("docs/mpirun.md has no table of lines that differ")
	}
	lines := map[string]bool{}
	for row := range strings.Lines(table) {
		cells := strings.Split(row, " | ")
		if !strings.HasPrefix(row, "| `") || len(cells) < 3 {
			if strings.HasPrefix(row, "|--") {
				continue
			}
			break
		}
		line := strings.ReplaceAll(strings.Trim(strings.TrimPrefix(cells[0], "| "), "`"), `\|`, "|")
		for family := range strings.SplitSeq(cells[1], ",") {
			lines[strings.TrimSpace(family)+" "+line] = true
		}
	}
	return lines
}
