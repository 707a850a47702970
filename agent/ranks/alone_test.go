package ranks

import (
	"testing"
	"time"
)

// Variables that tell an MPI library whom to speak with are known among others; so are those that say that nobody is meant.
func TestWiringIsKnown(t *testing.T) {
	for name, want := range map[string]bool{"PMI_FD": true, "PMI_PORT": true, "PMIX_NAMESPACE": true, "PMIX_SERVER_URI41": true, "FLUX_JOB_ID": true,
		"PMIX_MCA_gds": false, "PMI_DEBUG": false, "PATH": false, "OMPI_MCA_pml": false} {
		if wires(name) != want {
			t.Errorf("%s wires: %v", name, !want)
		}
	}
	wired := wiredBy([]string{"A=1", "PMI_FD=3", "PMI_RANK=0", "PMIX_MCA_gds=hash"})
	if len(wired) != 2 || wired["PMI_FD"] != "3" || wired["PMI_RANK"] != "0" {
		t.Errorf("wired by %q", wired)
	}
	for _, tt := range []struct {
		name, value string
		want        bool
	}{
		{"OMPI_MCA_ess_singleton_isolated", "1", true}, {"OMPI_MCA_ess_singleton_isolated", "true", true}, {"OMPI_MCA_ess_singleton_isolated", "0", false},
		{"OMPI_MCA_ess_singleton_isolated", "false", false}, {"OMPI_MCA_ess", "singleton", true}, {"OMPI_MCA_ess", "pmi", false},
		{"OMPI_MCA_pmix", "isolated", true}, {"OMPI_MCA_pmix", "^s1,s2", false}, {"PATH", "1", false},
	} {
		if got := meantAlone(tt.name, tt.value); got != tt.want {
			t.Errorf("%s=%s means alone: %v", tt.name, tt.value, got)
		}
	}
}

// Looks are dense where a library has just come, and rare where a rank is old.
func TestWaitsBetweenLooks(t *testing.T) {
	for _, tt := range []struct {
		age       time.Duration
		hot, open bool
		want      time.Duration
	}{
		{0, true, true, fastLook}, {time.Minute, true, true, fastLook}, {0, false, true, steadyLook}, {0, false, false, idleLook},
		{time.Minute, false, true, lateLook}, {time.Minute, false, false, lateLook},
	} {
		if got := aloneWait(tt.age, tt.hot, tt.open); got != tt.want {
			t.Errorf("at %v, hot %v, open %v: %v", tt.age, tt.hot, tt.open, got)
		}
	}
}
