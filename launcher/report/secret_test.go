package report

import (
	"strings"
	"testing"
	"time"

	"github.com/mpiup/mpiup/internal/job"
	"github.com/mpiup/mpiup/launcher/verdict"
	"github.com/mpiup/mpiup/test/cost"
)

func TestSecretsAreMasked(t *testing.T) {
	for _, tt := range [][2]string{
		{"WANDB_API_KEY=0123456789", "WANDB_API_KEY=***"},
		{"DB_PASSWORD=x", "DB_PASSWORD=***"},
		{"AWS_SECRET_ACCESS_KEY=abc", "AWS_SECRET_ACCESS_KEY=***"},
		{"MYSQL_PWD=x", "MYSQL_PWD=***"},
		{"REGISTRY_PASS=x", "REGISTRY_PASS=***"},
		{"GITHUB_PAT=x", "GITHUB_PAT=***"},
		{"SLACK_WEBHOOK=x", "SLACK_WEBHOOK=***"},
		{"EMPTY_TOKEN=", "EMPTY_TOKEN="},
		{"TOKENIZERS_PARALLELISM=false", "TOKENIZERS_PARALLELISM=false"},
		{"MPIUP_KEY=/etc/mpiup/key", "MPIUP_KEY=/etc/mpiup/key"},
		{"PWD=/work", "PWD=/work"},
		{"OLDPWD=/work", "OLDPWD=/work"},
		{"URL=https://user:pa55@host/x", "URL=https://***@host/x"},
		{"X=ghp_0123456789abcdefghij", "X=***"},
		{"X=AKIAIOSFODNN7EXAMPLE", "X=***"},
		{"X=eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2ln", "X=***"},
		{"PATH=/usr/bin:/bin", "PATH=/usr/bin:/bin"},
		{"OMP_NUM_THREADS=4", "OMP_NUM_THREADS=4"},
		{"DATA=s3://bucket/path@v2", "DATA=s3://bucket/path@v2"},
		{"NO_EQUALS", "NO_EQUALS"},
		{"LONG=" + strings.Repeat("x", maxVariable+9), "LONG=" + strings.Repeat("x", maxVariable) + "…"},
	} {
		if got := variable(tt[0]); got != tt[1] {
			t.Errorf("%.60s: %.60s, want %.60s", tt[0], got, tt[1])
		}
	}
	for text, want := range map[string]string{
		"login failed: password=hunter2 for bob":                     "login failed: password=*** for bob",
		"Authorization: Bearer abcdefgh":                             "Authorization: Bearer ***",
		"Authorization: Basic dXNlcjpwdw==":                          "Authorization: Basic ***",
		`{"token": "abcdef"}`:                                        `{"token": "***"}`,
		`{\"db_password\":\"x\"}`:                                    `{\"db_password\":\"***\"}`,
		`os.environ["HF_TOKEN"] = "x"`:                               `os.environ["HF_TOKEN"] = "***"`,
		"using redis://:pw@cache:6379/0":                             "using redis://***@cache:6379/0",
		"postgres://bob:p@ss/w@db/x?sslmode=off":                     "postgres://***@db/x?sslmode=off",
		"git clone https://0123456789abcdef0123@host/x":              "git clone https://***@host/x",
		"export DB_PASSWORD=x; ./run":                                "export DB_PASSWORD=***; ./run",
		"HF_TOKEN=abc python t.py":                                   "HF_TOKEN=*** python t.py",
		"train --password pw --lr 1":                                 "train --password *** --lr 1",
		"train --hf-token=abc --lr 1":                                "train --hf-token=*** --lr 1",
		"train --db.password 'a b' --lr 1":                           "train --db.password '***' --lr 1",
		"['train', '--api-key', 'abc', '-x']":                        "['train', '--api-key', '***', '-x']",
		"curl -u bob:pw https://host":                                "curl -u bob:*** https://host",
		"spring.datasource.password: s3":                             "spring.datasource.password: ***",
		"x-api-key: 12":                                              "x-api-key: ***",
		"PRIVATE-TOKEN: a2":                                          "PRIVATE-TOKEN: ***",
		"AccountKey=abc==;EndpointSuffix=x":                          "AccountKey=***;EndpointSuffix=x",
		"GET /x?X-Amz-Signature=0a1b&a=b":                            "GET /x?X-Amz-Signature=***&a=b",
		"-----BEGIN RSA PRIVATE KEY-----\nMIIE\n":                    "***",
		"step 3, tokens per second: 1200 (token)":                    "step 3, tokens per second: 1200 (token)",
		"loss 2.1, max_new_token=512, num_tokens=80":                 "loss 2.1, max_new_token=512, num_tokens=80",
		"--tokenizer bert-base --max-tokens 128 --key-value-heads 8": "--tokenizer bert-base --max-tokens 128 --key-value-heads 8",
		"use_auth_token=None, token: null, password=$PW":             "use_auth_token=None, token: null, password=$PW",
		"http://host:8080/model@v2 is up":                            "http://host:8080/model@v2 is up",
		"KeyError: 'state_dict' in author: bob":                      "KeyError: 'state_dict' in author: bob",
		"NCCL WARN Call to ibv_modify_qp failed":                     "NCCL WARN Call to ibv_modify_qp failed",
		"0000:3b:00.0 sk-7, hf_hub 0.20, npm_config":                 "0000:3b:00.0 sk-7, hf_hub 0.20, npm_config",
	} {
		if got := plain(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
	got := strings.Join(words([]string{"train", "--password", "pw", "--token", "-x", "--tokenizer", "bert", "--max-token", "9", "-u", "a", "HF_TOKEN=x", "--api-key=x", "--secret", "-s3cret"}), " ")
	if want := "train --password *** --token -x --tokenizer bert --max-token 9 -u a HF_TOKEN=*** --api-key=*** --secret ***"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

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
		secret := key[max(len(key)-12, 0):]
		for what, text := range everywhere(key) {
			if strings.Contains(text, secret) {
				t.Errorf("%s of a report has %.14s…: %.300s", what, key, text)
			}
		}
	}
	pem := strings.Split("before\n-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1r\nZXktdjEAAAAA\n-----END OPENSSH PRIVATE KEY-----\nafter", "\n")
	for _, list := range [][]string{pem, pem[2:], pem[:4]} {
		if got := strings.Join(Masked(list), " "); strings.Contains(got, "Zxkt") || strings.Contains(got, "b3Bl") || strings.Contains(got, "ZXkt") {
			t.Errorf("%q", got)
		}
	}
	if got := strings.Join(Masked(pem), " "); got != "before *** *** *** *** after" {
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

func FuzzMask(f *testing.F) {
	f.Add("password=x redis://:pw@h sk-0123456789abcdef0123 -----BEGIN RSA PRIVATE KEY----- --token 'a\\' b")
	f.Add("--password-----END PRIVATE KEY-----")
	f.Fuzz(func(t *testing.T, text string) {
		defer cost.Watch(t, cost.Bound{Fixed: 4 << 20, PerByte: 2 << 10}, len(text))()
		Masked(strings.Split(plain(text), "\n"))
		words(strings.Fields(text))
	})
}
