package pmix

import (
	"fmt"
	"strings"
	"testing"

	"github.com/mpiup/mpiup/pmi/kvs"
	"github.com/mpiup/mpiup/pmi/pmix/bfrops"
	"github.com/mpiup/mpiup/test/golden"
)

type nowhere struct{ kvs.Upstream }

func config() Config {
	return Config{Address: "127.0.0.1:4711", SessionDir: "/run/mpiup/s1", Engine: kvs.New(kvs.Run{})}
}

// serving is a server of j.
func serving(t testing.TB, j Job) (*Server, *namespace) {
	t.Helper()
	s, err := New(config())
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Add(j); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.end)
	return s, s.job(j.Number)
}

// sample is host 1 of a job of two programs on hosts of 3 and 2 ranks.
func sample(t testing.TB, hosts ...int) Job {
	j := Job{Namespace: "job", Crowded: true, Here: len(hosts) - 1, Universe: 8, MapBy: "slot",
		Binding: func(r int) (string, string) { return fmt.Sprintf("NM0:SK0:CR%d:HT%d", r, r), fmt.Sprint(r) }}
	size := 0
	for h, n := range hosts {
		host := Host{Name: fmt.Sprintf("w%d", h)}
		for range n {
			host.Ranks = append(host.Ranks, size)
			size++
		}
		j.Hosts = append(j.Hosts, host)
	}
	var err error
	j.Space, err = kvs.New(kvs.Run{Upstream: nowhere{}}).Add(kvs.Job{KVSName: "job", Size: size, Local: j.Hosts[j.Here].Ranks})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { j.Space.Close(nil) })
	return j
}

// What ranks are told, as text.
func TestJobDataGolden(t *testing.T) {
	for _, name := range []string{"v41", "v21"} {
		for _, desc := range []bool{false, true} {
			j := sample(t, 3, 2)
			j.Apps = []int{0, 0, 0, 1, 1}
			d, err := bfrops.Find(name)
			if err != nil {
				t.Fatal(err)
			}
			_, ns := serving(t, j)
			packed, err := ns.data.packed(jobDataKind{d, desc, false})
			if err != nil {
				t.Fatal(err)
			}
			var out strings.Builder
			dump(t, &out, bfrops.NewReader(d, desc, packed), desc, "")
			golden.Is(t, "testdata/jobdata-"+name+".txt", out.String())
		}
	}
}

func dump(t *testing.T, out *strings.Builder, r *bfrops.Reader, desc bool, indent string) {
	pairs, err := readPairs(r)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range pairs {
		fmt.Fprintf(out, "%s%s %s", indent, p.Key, p.Value.Type)
		switch v := p.Value.Data.(type) {
		case []byte:
			inner := r.Sub(bfrops.Buffer{Desc: desc, Data: v})
			if p.Key == "pmix.pblob" {
				fmt.Fprintf(out, " rank %d\n", bfrops.One[uint64](inner, bfrops.ProcRank))
			} else {
				fmt.Fprintf(out, " %d\n", inner.Count())
			}
			dump(t, out, inner, desc, indent+"  ")
		case bfrops.Array:
			out.WriteString("\n")
			for _, e := range v.Data {
				if i, ok := e.(bfrops.Info); ok {
					fmt.Fprintf(out, "%s  %s %s %v\n", indent, i.Key, i.Value.Type, i.Value.Data)
				} else {
					fmt.Fprintf(out, "%s  %v\n", indent, e)
				}
			}
		default:
			fmt.Fprintf(out, " %v\n", v)
		}
	}
}

func TestEnvironmentGolden(t *testing.T) {
	s, _ := serving(t, sample(t, 3, 2))
	golden.Is(t, "testdata/environment.txt", strings.Join(s.Environment(0, 3), "\n")+"\n")
	for user, want := range map[string]string{
		"": "^flux,s1,s2,cray", "ext3x": "ext3x", "^ext3x,s1": "^ext3x,s1,flux,s2,cray", "^": "^flux,s1,s2,cray",
	} {
		if got := componentsWithout(user); got != want {
			t.Errorf("OMPI_MCA_pmix=%s becomes %s, want %s", user, got, want)
		}
	}
}

func TestJobsThatAreRefused(t *testing.T) {
	for name, spoil := range map[string]func(*Job){
		"no space":        func(j *Job) { j.Space = nil },
		"no namespace":    func(j *Job) { j.Namespace = "" },
		"long namespace":  func(j *Job) { j.Namespace = strings.Repeat("n", 256) },
		"no host":         func(j *Job) { j.Here = 2 },
		"rank twice":      func(j *Job) { j.Hosts[0].Ranks = []int{0, 1, 3} },
		"rank missing":    func(j *Job) { j.Hosts[0].Ranks = []int{0, 1} },
		"ranks disorder":  func(j *Job) { j.Hosts[0].Ranks = []int{1, 0, 2} },
		"too few apps":    func(j *Job) { j.Apps = []int{0} },
		"app without end": func(j *Job) { j.Apps = []int{0, 0, 0, 0, 1 << 30} },
	} {
		j := sample(t, 3, 2)
		spoil(&j)
		s, err := New(config())
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Add(j); err == nil {
			t.Errorf("%s: taken", name)
		}
	}
}

// A rank's copy of the job data of 1,024 ranks, packed for the first rank and for the others.
func BenchmarkJobData(b *testing.B) {
	for _, hosts := range []int{8, 128} {
		shape := make([]int, hosts)
		for i := range shape {
			shape[i] = 1024 / hosts
		}
		_, ns := serving(b, sample(b, shape...))
		b.Run(fmt.Sprintf("%dx%d", hosts, shape[0]), func(b *testing.B) {
			for b.Loop() {
				data := jobData{job: ns}
				packed, err := data.packed(jobDataKind{dialect: bfrops.Canonical()})
				if err != nil {
					b.Fatal(err)
				}
				b.ReportMetric(float64(len(packed)), "bytes")
			}
		})
	}
}

// Jobs of one server: what the user has set for a rank, and whether there is room for it, is its job's.
func TestEnvironmentIsEachJobs(t *testing.T) {
	first := sample(t, 2)
	first.Crowded = false
	s, one := serving(t, first)
	second := sample(t, 2)
	second.Number, second.Base, second.Namespace = 1, 2, "job1"
	second.Getenv = func(rank int, name string) string {
		return map[string]string{"0 OMPI_MCA_pmix": "^ext", "1 OMPI_MCA_mpi_oversubscribe": "0"}[fmt.Sprint(rank, " ", name)]
	}
	if err := s.Add(second); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		job, rank int
		want      string
	}{
		{0, 1, "OMPI_MCA_pmix=^flux,s1,s2,cray"},
		{1, 0, "OMPI_MCA_pmix=^ext,flux,s1,s2,cray OMPI_MCA_mpi_oversubscribe=1"},
		{1, 1, "OMPI_MCA_pmix=^flux,s1,s2,cray"},
	} {
		var got []string
		for _, kv := range s.Environment(tt.job, tt.rank) {
			if strings.HasPrefix(kv, "OMPI_MCA_") {
				got = append(got, kv)
			}
		}
		if strings.Join(got, " ") != tt.want {
			t.Errorf("job %d rank %d: %q, not %q", tt.job, tt.rank, got, tt.want)
		}
	}
	for ns, want := range map[*namespace]bool{one: false, s.job(1): true} {
		w := bfrops.NewWriter(bfrops.Canonical(), false, nil)
		ns.packHost(w)
		b, err := w.Bytes()
		if err != nil || strings.Contains(string(b), "pmix.ndosub") != want {
			t.Errorf("job %d: %q, %v", ns.Number, b, err)
		}
	}
}
