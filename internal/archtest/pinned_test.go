package archtest

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	pinnedAction = regexp.MustCompile(`^[\w.-]+/[\w./-]+@[0-9a-f]{40}$`)
	pinnedImage  = regexp.MustCompile(`@sha256:[0-9a-f]{64}$`)
	used         = regexp.MustCompile(`(?m)^\s*-?\s*uses:\s*(\S+)`)
	contained    = regexp.MustCompile(`(?m)^[ -]*(?:image|container):[ ]+(\S+)`)
	jobHead      = regexp.MustCompile(`(?m)^  [\w-]+:\s*$`)
)

// unpinned says what of a workflow can be changed by somebody else, or gives who proposes a change more than a container.
func unpinned(workflow string) (wrong []string) {
	for _, m := range used.FindAllStringSubmatch(workflow, -1) {
		if !strings.HasPrefix(m[1], "./") && !pinnedAction.MatchString(m[1]) {
			wrong = append(wrong, "the action "+m[1]+" is named by no commit")
		}
	}
	for _, m := range contained.FindAllStringSubmatch(workflow, -1) {
		if !pinnedImage.MatchString(m[1]) {
			wrong = append(wrong, "the image "+m[1]+" is named by no digest")
		}
	}
	if strings.Contains(workflow, "pull_request_target") {
		wrong = append(wrong, "pull_request_target runs a proposal with this repository's rights")
	}
	if !strings.Contains(workflow, "\npermissions:\n  contents: read\n") {
		wrong = append(wrong, "it has more rights than to read")
	}
	if !strings.Contains(workflow, "pull_request") {
		return wrong
	}

	_, jobs, _ := strings.Cut(workflow, "\njobs:\n")
	heads := jobHead.FindAllStringIndex(jobs, -1)
	for i, at := range heads {
		end := len(jobs)
		if i+1 < len(heads) {
			end = heads[i+1][0]
		}
		text := jobs[at[0]:end]
		privileged := slices.ContainsFunc([]string{"--privileged", "--cap-add", "--security-opt", "--pid", "--network", "docker.sock"}, func(w string) bool { return strings.Contains(text, w) })
		if privileged && !strings.Contains(text, "\n    if: github.event_name != 'pull_request'\n") && !strings.Contains(text, "\n    if: github.event_name == 'push'\n") {
			wrong = append(wrong, strings.TrimSpace(jobs[at[0]:at[1]])+" gives a proposal a container with the machine's rights")
		}
	}
	return wrong
}

// What CI runs is what stands in this repository: actions by commit and images by digest, and no proposal of a stranger's gets a privileged container.
func TestWorkflowsArePinned(t *testing.T) {
	all, err := filepath.Glob("../../.github/workflows/*.y*ml")
	if err != nil || len(all) == 0 {
		t.Fatal("no workflow is there", err)
	}
	for _, path := range all {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, wrong := range unpinned(string(text)) {
			t.Errorf("%s: %s", path, wrong)
		}
	}
}

func TestUnpinnedWorkflowsAreSeen(t *testing.T) {
	const good = "on:\n  pull_request:\npermissions:\n  contents: read\njobs:\n  test:\n    if: github.event_name != 'pull_request'\n    container:\n" +
		"      image: debian@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef\n      options: --privileged\n    steps:\n" +
		"      - uses: actions/checkout@0123456789abcdef0123456789abcdef01234567 # v4\n"
	if wrong := unpinned(good); wrong != nil {
		t.Errorf("%q", wrong)
	}
	for name, change := range map[string][2]string{
		"a tag":             {"@0123456789abcdef0123456789abcdef01234567", "@v4"},
		"a branch":          {"@0123456789abcdef0123456789abcdef01234567", "@main"},
		"half a commit":     {"@0123456789abcdef0123456789abcdef01234567", "@0123456"},
		"an image's tag":    {"debian@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef", "debian:bookworm"},
		"no digest at all":  {"      image: debian@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef\n", "      image: debian\n"},
		"privileged":        {"    if: github.event_name != 'pull_request'\n", ""},
		"another condition": {"!= 'pull_request'", "!= 'push'"},
		"a target":          {"  pull_request:\n", "  pull_request_target:\n"},
		"rights":            {"  contents: read\n", "  contents: write\n"},
		"all rights":        {"permissions:\n  contents: read\n", ""},
	} {
		if len(unpinned(strings.Replace(good, change[0], change[1], 1))) == 0 {
			t.Errorf("%s is not seen", name)
		}
	}
}

// Images are built on bases by digest. A base whose registry was not asked is an argument, and the stage ends where that has no digest.
func TestBasesArePinned(t *testing.T) {
	all, err := filepath.Glob("../../examples/*/Dockerfile")
	if err != nil || len(all) == 0 {
		t.Fatal("no Dockerfile is there", err)
	}
	for _, path := range append(all, "../../Containerfile") {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, wrong := range floating(string(text)) {
			t.Errorf("%s: %s", path, wrong)
		}
	}
}

// floating are bases that may be another image tomorrow.
func floating(text string) (wrong []string) {
	stages := map[string]bool{"scratch": true}
	parts := strings.Split("\n"+text, "\nFROM ")
	for _, part := range parts[1:] {
		head, body, _ := strings.Cut(part, "\n")
		words := strings.Fields(head)
		base := words[0]
		argument, isArgument := strings.CutPrefix(base, "$")
		argument = strings.Trim(argument, "{}")
		switch {
		case stages[base], pinnedImage.MatchString(base):
		case isArgument && strings.HasPrefix(body, "ARG "+argument+"\nRUN case \"$"+argument+"\" in *@sha256:*) ;; *) echo ") && strings.Contains(body, "exit 1 ;; esac\n"):
		default:
			wrong = append(wrong, "the base "+base+" is named by no digest")
		}
		if len(words) == 3 {
			stages[words[2]] = true
		}
	}
	return wrong
}

func TestFloatingBasesAreSeen(t *testing.T) {
	for text, seen := range map[string]bool{
		"FROM scratch\n": false, "FROM debian:12\n": true, "ARG B=x\nFROM $B\nRUN true\n": true,
		"FROM a@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef AS b\nFROM b\n":           false,
		"ARG B=x\nFROM $B\nARG B\nRUN case \"$B\" in *@sha256:*) ;; *) echo \"its digest\" >&2; exit 1 ;; esac\n": false,
	} {
		if got := len(floating(text)) > 0; got != seen {
			t.Errorf("%q: %t", text, got)
		}
	}
}
