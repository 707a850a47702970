package frameworks

import (
	"strings"
	"testing"
)

// torch's flight recorder is switched on under the names of its version, and nothing of the user's or the container's is replaced.
func TestRecorder(t *testing.T) {
	const old = "TORCH_NCCL_TRACE_BUFFER_SIZE=2000 TORCH_NCCL_DUMP_ON_TIMEOUT=1 TORCH_NCCL_DEBUG_INFO_TEMP_FILE=/s/rank_ TORCH_NCCL_DEBUG_INFO_PIPE_FILE=/s/ask_"
	const now = "TORCH_FR_BUFFER_SIZE=2000 TORCH_NCCL_DUMP_ON_TIMEOUT=1 TORCH_FR_DUMP_TEMP_FILE=/s/rank_ TORCH_NCCL_DEBUG_INFO_PIPE_FILE=/s/ask_"
	for _, c := range []struct {
		name, torch     string
		user, container []string
		nowhere         bool
		want            string
	}{
		{"no torch", "", nil, nil, false, ""},
		{"older than the recorder", "2.1.0+cu121", nil, nil, false, ""},
		{"Debian 12's", "1.13.1", nil, nil, false, ""},
		{"the first names", "2.2.0", nil, nil, false, old},
		{"a container of NVIDIA's", "2.6.0a0+ecf3bae40a.nv25.1", nil, nil, false, old},
		{"the second names", "2.9.1+cu128", nil, nil, false, now},
		{"a later one", "2.15.0+cpu", nil, nil, false, now},
		{"another generation", "3.0", nil, nil, false, now},
		{"no version", "torch", nil, nil, false, ""},
		{"nowhere to write to", "2.9.1", nil, nil, true, ""},
		{"the user's file, by its older name", "2.9.1", []string{"TORCH_NCCL_DEBUG_INFO_TEMP_FILE"}, nil, false, "TORCH_FR_BUFFER_SIZE=2000 TORCH_NCCL_DUMP_ON_TIMEOUT=1"},
		{"an operator's container that has it off", "2.4.0", nil, []string{"RANK", "TORCH_NCCL_TRACE_BUFFER_SIZE"}, false, strings.TrimPrefix(old, "TORCH_NCCL_TRACE_BUFFER_SIZE=2000 ")},
	} {
		r := Rank{Torch: c.torch, Recorder: Recorder{Prefix: "/s/rank_", Pipe: "/s/ask_"}}
		if c.nowhere {
			r.Recorder = Recorder{}
		}
		var got []string
		for _, v := range r.recorder(Given{given(c.user...), given(c.container...)}) {
			got = append(got, v.Name+"="+v.Value)
		}
		if s := strings.Join(got, " "); s != c.want {
			t.Errorf("%s: %s, want %s", c.name, s, c.want)
		}
	}
}
