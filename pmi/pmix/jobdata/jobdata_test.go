package jobdata

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/mpiup/mpiup/pmi/pmix/bfrops"
	"github.com/mpiup/mpiup/test/golden"
)

var machine = Machine{Address: "127.0.0.1:4711", SessionDir: "/run/mpiup/s1"}

// sample is a job of two programs on hosts of so many ranks, as the last of them has it.
func sample(hosts ...int) Job {
	j := Job{Namespace: "job", Crowded: true, Here: len(hosts) - 1, Universe: 8,
		Binding: func(r int) (string, string) { return fmt.Sprintf("NM0:SK0:CR%d:HT%d", r, r), fmt.Sprint(r) }}
	for h, n := range hosts {
		host := Host{Name: fmt.Sprintf("w%d", h)}
		for range n {
			host.Ranks = append(host.Ranks, j.Size)
			j.Size++
		}
		j.Hosts = append(j.Hosts, host)
	}
	return j
}

// What ranks are told, as text.
func TestJobDataGolden(t *testing.T) {
	for _, name := range []string{"v41", "v21"} {
		for _, desc := range []bool{false, true} {
			j := sample(3, 2)
			j.Apps = []int{0, 0, 0, 1, 1}
			d, err := bfrops.Find(name)
			if err != nil {
				t.Fatal(err)
			}
			w := bfrops.NewWriter(d, desc, nil)
			j.Pack(w, &machine)
			packed, err := w.Bytes()
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
	for r.More() {
		p := bfrops.One[bfrops.KVal](r, bfrops.KValType)
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
	if r.Err() != nil {
		t.Fatal(r.Err())
	}
}

func TestEnvironmentGolden(t *testing.T) {
	j := sample(3, 2)
	golden.Is(t, "testdata/environment.txt", strings.Join(j.Environment(machine, 3), "\n")+"\n")
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
		"no namespace":    func(j *Job) { j.Namespace = "" },
		"long namespace":  func(j *Job) { j.Namespace = strings.Repeat("n", 256) },
		"no host":         func(j *Job) { j.Here = 2 },
		"rank twice":      func(j *Job) { j.Hosts[0].Ranks = []int{0, 1, 3} },
		"rank missing":    func(j *Job) { j.Hosts[0].Ranks = []int{0, 1} },
		"ranks disorder":  func(j *Job) { j.Hosts[0].Ranks = []int{1, 0, 2} },
		"too few apps":    func(j *Job) { j.Apps = []int{0} },
		"app without end": func(j *Job) { j.Apps = []int{0, 0, 0, 0, 1 << 30} },
	} {
		j := sample(3, 2)
		if err := j.Validate(); err != nil {
			t.Fatal(err)
		}
		spoil(&j)
		if err := j.Validate(); err == nil {
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
		j := sample(shape...)
		b.Run(fmt.Sprintf("%dx%d", hosts, shape[0]), func(b *testing.B) {
			for b.Loop() {
				w := bfrops.NewWriter(bfrops.Canonical(), false, nil)
				j.Pack(w, &machine)
				packed, err := w.Bytes()
				if err != nil {
					b.Fatal(err)
				}
				b.ReportMetric(float64(len(packed)), "bytes")
			}
		})
	}
}

// Where another agent of the run has /dev/shm, too, Open MPI's shared memory has a directory of its own, unless the user names one.
func TestEnvironmentOfSharedMemory(t *testing.T) {
	j, m := sample(2), machine
	m.Shared = "/dev/shm/mpiup_run.1"
	j.Getenv = func(_ int, name string) string {
		return map[string]string{"OMPI_MCA_osc_sm_backing_directory": "/mine"}[name]
	}
	var got []string
	for _, kv := range j.Environment(m, 1) {
		if strings.Contains(kv, "_backing_directory=") {
			got = append(got, kv)
		}
	}
	want := []string{"OMPI_MCA_btl_vader_backing_directory=" + m.Shared, "OMPI_MCA_osc_rdma_backing_directory=" + m.Shared}
	if !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
}

// What the user has set for a rank, and whether there is room for it, is its job's.
func TestEnvironmentIsEachJobs(t *testing.T) {
	first, second := sample(2), sample(2)
	first.Crowded = false
	second.Namespace = "job1"
	second.Getenv = func(rank int, name string) string {
		return map[string]string{"0 OMPI_MCA_pmix": "^ext", "1 OMPI_MCA_mpi_oversubscribe": "0"}[fmt.Sprint(rank, " ", name)]
	}
	for _, tt := range []struct {
		name string
		job  *Job
		rank int
		want string
	}{
		{"first", &first, 1, "OMPI_MCA_pmix=^flux,s1,s2,cray"},
		{"crowded", &second, 0, "OMPI_MCA_pmix=^ext,flux,s1,s2,cray OMPI_MCA_mpi_oversubscribe=1"},
		{"the user knows better", &second, 1, "OMPI_MCA_pmix=^flux,s1,s2,cray"},
	} {
		var got []string
		for _, kv := range tt.job.Environment(machine, tt.rank) {
			if strings.HasPrefix(kv, "OMPI_MCA_") {
				got = append(got, kv)
			}
		}
		if strings.Join(got, " ") != tt.want {
			t.Errorf("%s: %q, not %q", tt.name, got, tt.want)
		}
	}
	for _, j := range []*Job{&first, &second} {
		w := bfrops.NewWriter(bfrops.Canonical(), false, nil)
		j.Pack(w, &machine)
		b, err := w.Bytes()
		if err != nil || strings.Contains(string(b), "pmix.ndosub") != j.Crowded {
			t.Errorf("%s: %q, %v", j.Namespace, b, err)
		}
	}
}

// Ranks of other jobs are told of the job, and nothing of the host.
func TestForOtherJobs(t *testing.T) {
	j := sample(2)
	w := bfrops.NewWriter(bfrops.Canonical(), false, nil)
	j.Pack(w, nil)
	b, err := w.Bytes()
	if err != nil || !strings.Contains(string(b), "pmix.job.size") || strings.Contains(string(b), "pmix.tmpdir") {
		t.Errorf("%q, %v", b, err)
	}
}
