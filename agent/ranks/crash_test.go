package ranks

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/mpiup/mpiup/agent/trace"
	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
	"github.com/mpiup/mpiup/internal/bounded"
	"github.com/mpiup/mpiup/test/deadmount"
)

// A working directory that does not answer is not waited for: not by a start, nor by the look at a core, which the job's end ends.
func TestCoreOnADeadMount(t *testing.T) {
	dead, alive := deadmount.New(t), t.TempDir()
	st := New(&Shared{}, parsed(&apiv1.Launch{Job: &apiv1.Job{Pmi: apiv1.Pmi_PMI_NONE}}), nil)
	begun := time.Now()
	st.holdDirs([]string{filepath.Join(dead, "below"), alive, alive, filepath.Join(alive, "none")})
	defer st.releaseDirs()
	if took := time.Since(begun); took > 20*holdTime {
		t.Errorf("holding directories took %v", took)
	}
	if h := st.held; h[0] != nil || h[1] == nil || h[1] != h[2] || h[3] != nil || h[1].Name() != alive {
		t.Errorf("held are %v", h)
	}

	dir, err := bounded.HoldDir(dead)
	if err != nil {
		t.Fatal(err)
	}
	none := func(context.Context, []string, *os.File, int) (string, error) {
		t.Error("a tool looks at a core that nobody has found")
		return "", trace.ErrNoProgram
	}
	time.AfterFunc(100*time.Millisecond, st.kill)
	begun = time.Now()
	file, answered := answered(&Process{Job: st}, func(ctx context.Context) string {
		file, _ := trace.Core(ctx, none, trace.Process{PID: 1, Dir: dir, Pattern: "core"})
		return file
	})
	if took := time.Since(begun); answered || took > crashTime/2 {
		t.Errorf("%q, %v, after %v", file, answered, took)
	}
}
