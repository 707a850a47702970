package job

import "testing"

func TestProcess(t *testing.T) {
	for _, tt := range []struct {
		p         Process
		name, tag string
	}{
		{Process{0, 3}, "rank 3", "3"},
		{Process{1, 0}, "rank 0 of spawned job 1", "1.0"},
	} {
		if tt.p.String() != tt.name || tt.p.Tag() != tt.tag {
			t.Errorf("%+v is %q, %q", tt.p, tt.p.String(), tt.p.Tag())
		}
	}
}
