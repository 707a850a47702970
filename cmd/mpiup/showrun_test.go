package main

import (
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mpiup/mpiup/launcher"
)

// A run is shown where its flag says, else where its container's variable does. A taken port ends a run whose flag named it, and no other.
func TestShowRun(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.58.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	taken := l.Addr().String()
	for _, tt := range []struct {
		name, flag string
		env        []string
		shown      bool
		err, told  string
	}{
		{name: "nobody asked"},
		{name: "the flag", flag: "127.0.58.2:0", shown: true},
		{name: "the variable", env: []string{"MPIUP_METRICS=127.0.58.2:0"}, shown: true},
		{name: "the flag wins", flag: "127.0.58.2:0", env: []string{"MPIUP_METRICS=" + taken}, shown: true},
		{name: "off", env: []string{"MPIUP_METRICS=off"}},
		{name: "a rank's own run", env: []string{"MPIUP_METRICS=127.0.58.2:0", "MPIUP_RANK=0"}},
		{name: "a rank's own run with the flag", flag: "127.0.58.2:0", env: []string{"MPIUP_RANK=0"}, shown: true},
		{name: "taken, by the flag", flag: taken, err: "--metrics " + taken + ": "},
		{name: "taken, by the variable", env: []string{"MPIUP_METRICS=" + taken}, told: "mpiup: warning: nobody sees this run's metrics: MPIUP_METRICS " + taken + ": "},
		{name: "no address", env: []string{"MPIUP_METRICS=yes"}, told: "nobody sees this run's metrics: MPIUP_METRICS yes: "},
	} {
		t.Run(tt.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "stderr")
			stderr, err := os.Create(path)
			if err != nil {
				t.Fatal(err)
			}
			defer stderr.Close()
			p, cfg := &process{env: tt.env, stderr: stderr}, launcher.Config{}
			hide, err := p.showRun(&cfg, tt.flag, false)
			if tt.err == "" && err != nil || tt.err != "" && (err == nil || !strings.HasPrefix(err.Error(), tt.err)) {
				t.Fatalf("error %v, want %q", err, tt.err)
			}
			if err == nil {
				hide()
			}
			if (cfg.Metrics != nil) != tt.shown {
				t.Errorf("the run is shown: %v", cfg.Metrics != nil)
			}
			told, err := os.ReadFile(path)
			if err != nil || tt.told == "" && len(told) > 0 || !strings.Contains(string(told), tt.told) {
				t.Errorf("told is %q, %v, want %q", told, err, tt.told)
			}
		})
	}
}

// What is shown is a page for Prometheus.
func TestShowRunServes(t *testing.T) {
	const at = "127.0.58.3:7613"
	p, cfg := &process{env: []string{"MPIUP_METRICS=" + at}, stderr: os.Stderr}, launcher.Config{}
	hide, err := p.showRun(&cfg, "", false)
	if err != nil {
		t.Fatal(err)
	}
	defer hide()
	answer, err := http.Get("http://" + at + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	page, err := io.ReadAll(answer.Body)
	if err != nil || !strings.Contains(string(page), "mpiup_run_phase") {
		t.Errorf("%v: %s", err, page)
	}
	http.DefaultClient.CloseIdleConnections()
}
