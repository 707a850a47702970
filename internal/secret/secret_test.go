package secret

import (
	"strings"
	"testing"

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
	} {
		if got := MaskVariable(tt[0]); got != tt[1] {
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
		if got := MaskText(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
	got := strings.Join(MaskCommand([]string{"train", "--password", "pw", "--token", "-x", "--tokenizer", "bert", "--max-token", "9", "-u", "a", "HF_TOKEN=x", "--api-key=x", "--secret", "-s3cret"}), " ")
	if want := "train --password *** --token -x --tokenizer bert --max-token 9 -u a HF_TOKEN=*** --api-key=*** --secret ***"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// What has no name of a key and no maker's beginning is masked by the variable's name, by the program and its option, or by its place in a URL: in an
// environment, on a command line and in running text alike. want has what stays.
func TestSecretsByTheirPlace(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"OTEL_EXPORTER_OTLP_HEADERS=api-key=abc,x-tenant=b", "OTEL_EXPORTER_OTLP_HEADERS=***"},
		{"OTEL_EXPORTER_OTLP_TRACES_HEADERS=Authorization=Basic dTpw", "OTEL_EXPORTER_OTLP_TRACES_HEADERS=***"},
		{"SLURM_JWT=abc.def", "SLURM_JWT=***"},
		{"SSHPASS=pw", "SSHPASS=***"},
		{"PGPASS=pw", "PGPASS=***"},
		{"PASS=pw", "PASS=***"},
		{"MINIO_CREDS=user:pw", "MINIO_CREDS=***"},
		{"AWS_CREDS_JSON=pw", "AWS_CREDS_JSON=***"},
		{"RCLONE_FTP_PASS=pw", "RCLONE_FTP_PASS=***"},
		{"https://a.blob.core.windows.net/c/f?sv=2024&sig=aB%2Fc&se=x", "https://a.blob.core.windows.net/c/f?sv=2024&sig=***&se=x"},
		{"https://maps.host/api?key=abc&q=1", "https://maps.host/api?key=***&q=1"},
		{"https://f.azurewebsites.net/api/x?code=abc==", "https://f.azurewebsites.net/api/x?code=***"},
		{"wget https://bob:p%40ss@host/f", "wget https://***@host/f"},
		{"sshpass -p pw ssh -p 22 host", "sshpass -p *** ssh -p 22 host"},
		{"sshpass -ppw ssh host", "sshpass -p*** ssh host"},
		{"/usr/bin/sshpass -p pw scp a b", "/usr/bin/sshpass -p *** scp a b"},
		{"env A=b sshpass -p pw ssh host", "env A=b sshpass -p *** ssh host"},
		{"redis-cli -h cache -a pw ping", "redis-cli -h cache -a *** ping"},
		{"redis-cli --pass pw ping", "redis-cli --pass *** ping"},
		{"mysql -u root -ppw db", "mysql -u root -p*** db"},
		{"mysqldump -h db -ppw x", "mysqldump -h db -p*** x"},
		{"ldapsearch -x -D cn=admin -w pw uid=x", "ldapsearch -x -D cn=admin -w *** uid=x"},
		{"mongosh --host db -u a -p pw", "mongosh --host db -u a -p ***"},
		{"docker login -u bob -p pw registry", "docker login -u bob -p *** registry"},
		{"helm registry login -u bob -p pw host", "helm registry login -u bob -p *** host"},
		{"oc login -u bob -p pw https://api", "oc login -u bob -p *** https://api"},
		{"unzip -P pw a.zip", "unzip -P *** a.zip"},
		{"7z x -ppw a.7z", "7z x -p*** a.7z"},
		{"openssl enc -d -k pw -in f", "openssl enc -d -k *** -in f"},
		{"openssl rsa -passin pass:pw -in f", "openssl rsa -passin *** -in f"},
		{"smbclient -U bob%pw //h/s", "smbclient -U bob%*** //h/s"},
		{"curl -u bob:pw https://host", "curl -u bob:*** https://host"},
		{"train --db-password pw --lr 1", "train --db-password *** --lr 1"},
		{"train --slurm-jwt abc --lr 1", "train --slurm-jwt *** --lr 1"},
		// What is none of it stays.
		{"docker run -p 80:80 image", "docker run -p 80:80 image"},
		{"mysql -u root -p db", "mysql -u root -p db"},
		{"ssh -p 22 host", "ssh -p 22 host"},
		{"SSH_ASKPASS=/usr/bin/ask", "SSH_ASKPASS=/usr/bin/ask"},
		{"PGPASSFILE=/home/a/.pgpass", "PGPASSFILE=/home/a/.pgpass"},
		{"COMPASS=n", "COMPASS=n"},
		{"NCCL_ALGO=ring", "NCCL_ALGO=ring"},
		{"mkdir -p /work/a", "mkdir -p /work/a"},
		{"train --a 1 --b=2", "train --a 1 --b=2"},
		{"GET /x?a=1&b=2", "GET /x?a=1&b=2"},
	} {
		ways := map[string]string{
			"the text":    MaskText(c.text),
			"the command": strings.Join(MaskCommand(strings.Fields(c.text)), " "),
		}
		if name, _, ok := strings.Cut(c.text, "="); ok && isVariableName(name) {
			ways["the variable"] = MaskVariable(c.text)
		}
		if strings.HasPrefix(c.text, "OTEL_") { // a shell's word, with the space in it
			ways["the command"] = strings.Join(MaskCommand([]string{c.text}), " ")
		}
		for way, got := range ways {
			if got != c.want {
				t.Errorf("%s %q: %q, want %q", way, c.text, got, c.want)
			}
		}
	}

	for text, want := range map[string]string{
		"Command '['sshpass', '-p', 'a b', 'ssh', 'h']' returned 5": "Command '['sshpass', '-p', ***, 'ssh', 'h']' returned 5",
		"+ sshpass -p 'a b' ssh h":                                  "+ sshpass -p *** ssh h",
		"PASS: test_one, 3 passed, first pass: 10 s":                "PASS: test_one, 3 passed, first pass: 10 s",
		`export OTEL_EXPORTER_OTLP_HEADERS="a=b,c=d e"; ./run`:      `export OTEL_EXPORTER_OTLP_HEADERS="***"; ./run`,
	} {
		if got := MaskText(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

// TestLineMasker hides a private key's lines as they come, and ends by itself.
func TestLineMasker(t *testing.T) {
	var m LineMasker
	for i, l := range []struct{ line, want string }{
		{"hello", "hello"}, {"-----BEGIN RSA PRIVATE KEY-----", Mask}, {"MIIE", Mask},
		{"-----END RSA PRIVATE KEY-----", Mask}, {"on", "on"},
	} {
		if got := m.Line(l.line); got != l.want {
			t.Errorf("line %d: %q, want %q", i, got, l.want)
		}
	}
	m.Line("-----BEGIN PRIVATE KEY-----")
	for range maxKeyLines {
		m.Line("x")
	}
	if got := m.Line("seen"); got != "seen" {
		t.Errorf("a key without an end hides all that follows: %q", got)
	}
}

func FuzzMask(f *testing.F) {
	f.Add("password=x redis://:pw@h sk-0123456789abcdef0123 -----BEGIN RSA PRIVATE KEY----- --token 'a\\' b")
	f.Add("--password-----END PRIVATE KEY-----")
	f.Fuzz(func(t *testing.T, text string) {
		defer cost.Watch(t, cost.Bound{Fixed: 4 << 20, PerByte: 2 << 10}, len(text))()
		MaskLines(strings.Split(MaskText(text), "\n"))
		MaskCommand(strings.Fields(text))
	})
}
