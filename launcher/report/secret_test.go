package report

import (
	"strings"
	"testing"
	"time"

	"github.com/mpiup/mpiup/internal/job"
	"github.com/mpiup/mpiup/internal/secret"
	"github.com/mpiup/mpiup/launcher/verdict"
)

// fill is a text of random letters, for keys that are nobody's.
func fill(n int, of string) string {
	var b strings.Builder
	for i := range n {
		b.WriteByte(of[(i*7+i/5+3)%len(of)])
	}
	return b.String()
}

// What scanners of public repositories find by its beginning is masked wherever a report has text. The keys are made here: whole ones in this file would
// be found by them too.
func TestWhatScannersLookFor(t *testing.T) {
	const lower, upper, hex, all = "abcdefghijklmnopqrstuvwxyz0123456789", "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567", "0123456789abcdef", "abcdefghijABCDEFGHIJ0123456789klmnopKLMNOP"
	for _, key := range []string{
		"AKIA" + fill(16, upper), "ASIA" + fill(16, upper), "ABIA" + fill(16, upper), "LTAI" + fill(20, lower),
		"AIza" + fill(35, all), "ya29." + fill(40, all), "GOCSPX-" + fill(28, all),
		"ghp_" + fill(36, all), "gho_" + fill(36, all), "ghs_" + fill(36, all), "github_pat_" + fill(82, all),
		"glpat-" + fill(20, all), "gldt-" + fill(20, all), "glrt-" + fill(20, all), "glptt-" + fill(40, hex), "GR1348941" + fill(20, all),
		"hf_" + fill(34, all), "api_org_" + fill(34, all),
		"xoxb-" + fill(12, "0123456789") + "-" + fill(24, all), "xoxp-" + fill(60, "0123456789-"), "xapp-1-" + fill(40, upper),
		"https://hooks.slack.com/services/T" + fill(8, upper) + "/B" + fill(8, upper) + "/" + fill(24, all),
		"sk-" + fill(48, all), "sk-ant-api03-" + fill(93, all), "sk-proj-" + fill(80, all), "gsk_" + fill(52, all), "nvapi-" + fill(64, all), "pplx-" + fill(48, all),
		"sk_live_" + fill(24, all), "rk_test_" + fill(24, all), "whsec_" + fill(32, all),
		"SG." + fill(22, all) + "." + fill(43, all), "SK" + fill(32, hex), "key-" + fill(32, hex),
		"npm_" + fill(36, all), "pypi-AgEIcHlwaS5vcmc" + fill(60, all), "rubygems_" + fill(48, hex), "dckr_pat_" + fill(27, all), "AKCp" + fill(69, all), "cmVmd" + fill(59, all),
		"hvs." + fill(90, all), "hvb." + fill(150, all), fill(14, all) + ".atlasv1." + fill(60, all), "pul-" + fill(40, hex),
		"dop_v1_" + fill(64, hex), "shpat_" + fill(32, hex), "dapi" + fill(32, hex), "dt0c01." + fill(24, upper) + "." + fill(64, upper),
		"glsa_" + fill(32, all) + "_" + fill(8, hex), "NRAK-" + fill(27, upper), "lin_api_" + fill(40, lower), "sntrys_" + fill(60, all), "PMAK-" + fill(24, hex) + "-" + fill(34, hex),
		"ATATT3" + fill(186, all), "sbp_" + fill(40, hex), "p8e-" + fill(32, lower), "AGE-SECRET-KEY-1" + fill(58, upper), "A3-" + fill(6, upper) + "-" + fill(6, upper) + "-" + fill(26, upper),
		"ops_eyJ" + fill(250, all), "tskey-auth-" + fill(24, all), "EZAK" + fill(54, all), "abc1Q~" + fill(31, all),
		"eyJ" + fill(20, all) + ".eyJ" + fill(20, all) + "." + fill(43, all), "123456789:AA" + fill(33, all), "M" + fill(23, all) + "." + fill(6, all) + "." + fill(27, all),
	} {
		end := key[max(len(key)-12, 0):]
		for what, text := range everywhere(key) {
			if strings.Contains(text, end) {
				t.Errorf("%s of a report has %.14s…: %.300s", what, key, text)
			}
		}
	}
	pem := strings.Split("before\n-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1r\nZXktdjEAAAAA\n-----END OPENSSH PRIVATE KEY-----\nafter", "\n")
	for _, list := range [][]string{pem, pem[2:], pem[:4]} {
		if got := strings.Join(secret.MaskLines(list), " "); strings.Contains(got, "Zxkt") || strings.Contains(got, "b3Bl") || strings.Contains(got, "ZXkt") {
			t.Errorf("%q", got)
		}
	}
	if got := strings.Join(secret.MaskLines(pem), " "); got != "before *** *** *** *** after" {
		t.Errorf("%q", got)
	}
}

// everywhere is a report with a text in each of its places.
func everywhere(text string) map[string]string {
	var r Recorder
	begun := time.Now()
	r.Begin(Report{Begun: begun, Command: []string{"train", "--x=" + text, text}})
	r.Programs([]Program{{Argv: []string{"x", text, "A=" + text}, Env: []string{"X=" + text, "Y=a " + text + " b"}}})
	r.Rank(Rank{Host: "w1"})
	r.Last(0, job.Stderr, []string{"got '" + text + "'", text})
	r.Ended(begun, 0, "exit code 1, "+text)
	r.Event(begun, Event{Kind: Said, Text: "(" + text + ")"})
	r.Restart(begun, Restart{Why: text})
	v := &verdict.Verdict{Evidence: []string{"it wrote " + text}, Stderr: []string{text}, Others: []string{text}, Frames: []string{text}, Stacks: []job.Stack{{Frames: []string{text}}}}
	before := strings.Clone(v.Evidence[0])
	is := r.Report(Report{Verdict: v})
	if v.Evidence[0] != before {
		panic("the verdict itself is changed")
	}
	r.Rank(Rank{Host: "w1"})
	r.Programs([]Program{{Argv: []string{"x", text}, Env: []string{"X=" + text}}})
	r.Last(0, job.Stderr, []string{text})
	r.Ended(begun, 0, text)
	whole := r.Report(Report{Verdict: v})
	out := map[string]string{}
	for _, r := range []*Report{is, whole} {
		out["the command"] += strings.Join(r.Command, " ")
		for _, p := range r.Programs {
			out["the programs"] += strings.Join(append(p.Argv, p.Env...), " ")
		}
		for _, p := range r.Ranks {
			out["the ranks"] += p.End + strings.Join(p.Last, " ")
		}
		for _, e := range r.Events {
			out["the events"] += e.Text
		}
		for _, a := range r.Restarts {
			out["the restarts"] += a.Why
		}
		out["the verdict"] += strings.Join(append(append(append(r.Verdict.Evidence, r.Verdict.Stderr...), r.Verdict.Others...), append(r.Verdict.Frames, r.Verdict.Stacks[0].Frames...)...), " ")
	}
	return out
}

// A long value of a variable is cut, and its name stays.
func TestLongVariablesAreCut(t *testing.T) {
	for _, c := range [][2]string{
		{"LONG=" + strings.Repeat("x", maxVariable+9), "LONG=" + strings.Repeat("x", maxVariable) + "…"},
		{"SHORT=x", "SHORT=x"},
		{"NO_EQUALS", "NO_EQUALS"},
	} {
		if got := cutVariable(c[0]); got != c[1] {
			t.Errorf("%.20s: %.60s", c[0], got)
		}
	}
}
