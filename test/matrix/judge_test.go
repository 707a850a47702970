package main

import (
	"bytes"
	"path"
	"reflect"
	"slices"
	"strings"
	"testing"
)

func TestJudge(t *testing.T) {
	t.Parallel()
	hello := program{name: "hello", want: map[where]string{one: "4 there", several: "2 there"}}
	death := program{name: "death", code: 5, cause: `rank 1 on {host} .*code 5`}
	sample := program{name: "sample", kind: example}
	for _, c := range []struct {
		name   string
		p      program
		e      ended
		at     where
		word   word
		reason string // part of it
	}{
		{"ok", hello, ended{stdout: "x\n2 there\n"}, several, ok, ""},
		{"another output", hello, ended{stdout: "x\n2 there\n"}, one, fails, `printed "2 there", not "4 there"`},
		{"another code", hello, ended{code: 3, stderr: "a\nwhy\n"}, one, fails, "exit code 3, not 0: why"},
		{"too late", hello, ended{code: 143, late: true}, one, fails, "not over after 1m0s"},
		{"processes left", hello, ended{stdout: "2 there", left: []string{"w0: ./a"}}, several, fails, "left behind: w0: ./a"},
		{"cause", death, ended{code: 5, stderr: "mpiup: rank 1 on w0 ended with code 5\n"}, several, ok, ""},
		{"cause on one host", death, ended{code: 5, stderr: "mpiup: rank 1 on launcher ended with code 5\n"}, one, ok, ""},
		{"another rank's", death, ended{code: 5, stderr: "mpiup: rank 2 on w0 ended with code 5"}, several, fails, "the cause is told as"},
		{"an example", sample, ended{stderr: "Client rank 0: running\n"}, one, ok, ""},
		{"an example that says so", sample, ended{stderr: "Client rank 0: running\nPMIx_Get failed: -46\n"}, one, fails, "PMIx_Get failed"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			word, reason := c.p.judge(c.e, c.at)
			if word != c.word || !strings.Contains(reason, c.reason) || (word == ok) != (reason == "") {
				t.Errorf("%s: %q", word, reason)
			}
		})
	}
}

// A cell that failed is never ok without a word of it, whether the run itself or somebody later tried again.
func TestOkOnRetry(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name      string
		kept      *result
		now, want result
	}{
		{"the first time", nil, result{Word: ok}, result{Word: ok}},
		{"after a failure", &result{Word: fails, Reason: "late"}, result{Word: ok}, result{Word: onRetry, Reason: "before: late"}},
		{"and once more", &result{Word: onRetry, Reason: "before: late"}, result{Word: ok}, result{Word: onRetry, Reason: "before: late"}},
		{"of another mpiup", &result{Word: fails, Reason: "late", Commit: "old"}, result{Word: ok}, result{Word: ok}},
		{"fails again", &result{Word: fails, Reason: "late"}, result{Word: fails, Reason: "code 1"}, result{Word: fails, Reason: "code 1"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if got := c.now.after(c.kept); got != c.want {
				t.Errorf("%+v, not %+v", got, c.want)
			}
		})
	}
	var out bytes.Buffer
	n := &notes{}
	all := results{}
	for _, s := range stacks[:2] {
		all[[3]string{s.name, programs[0].name, string(several)}] = &result{Word: onRetry, Reason: "before: late"}
	}
	writeCells(&out, all, several, n)
	if !strings.Contains(out.String(), "\tok on retry [1]\tok on retry [1]\t") {
		t.Errorf("the table does not tell: %s", out.String())
	}
}

func TestSummary(t *testing.T) {
	t.Parallel()
	text := `testA (test_win.TestWin.testA) ... ok
testB (test_win.TestWin.testB) ... skipped 'mpi-win-create'
testC (test_win.TestWin.testC)
Says what it does. ... skipped "can't"
testB (test_win.TestOther.testB) ... skipped 'mpi-win-create'
testD (test_win.TestWin.testD) ... FAIL

======================================================================
FAIL: testD (test_win.TestWin.testD)
----------------------------------------------------------------------
Ran 5 tests in 3.2s

FAILED (failures=1, skipped=3)
`
	want := &suiteResult{Ran: 5, Failed: []string{"test_win.TestWin.testD"}, Skipped: map[string][]string{
		"mpi-win-create": {"test_win.TestWin.testB", "test_win.TestOther.testB"}, "can't": {"test_win.TestWin.testC"}}}
	if got := summary(text); !reflect.DeepEqual(got, want) {
		t.Errorf("%+v", got)
	}
	if why := want.hollow(2); why != "" {
		t.Error(why)
	}
	if why := summary("").hollow(1); why != "no test was run" {
		t.Error(why)
	}
	one := summary("testA (test_win.TestWin.testA) ... skipped 'mpi-world-size<2'\nRan 1 test in 1s\n")
	if why := one.hollow(2); why != "the ranks were not in one world" || one.hollow(1) != "" {
		t.Errorf("%q, %q", why, one.hollow(1))
	}
}

func TestGrouped(t *testing.T) {
	t.Parallel()
	if got := grouped([]string{"m.A.x", "m.B.y", "m.A.z"}); got != "m.A (2), m.B.y" {
		t.Error(got)
	}
}

// Every program has a source, and every stack that lacks one names a program there is.
func TestTable(t *testing.T) {
	t.Parallel()
	known := map[string]bool{}
	for _, p := range programs {
		if known[p.name] {
			t.Errorf("two programs are called %s", p.name)
		}
		known[p.name] = true
	}
	for name := range wheelLacks {
		if !slices.Contains(names(), name) {
			t.Errorf("%s is no stack", name)
		}
	}
	for name := range wheelLeftOut {
		if !slices.Contains(names(), name) {
			t.Errorf("%s is no stack", name)
		}
	}
	for _, s := range stacks {
		for name := range s.lacks {
			if program, _, _ := strings.Cut(name, " on "); !known[program] {
				t.Errorf("%s lacks %s, which is no program", s.name, name)
			}
		}
		for name := range s.races {
			if !known[name] {
				t.Errorf("%s has a race in %s, which is no program", s.name, name)
			}
		}
		for test := range s.leftOut { // mpi4py takes it for a part of the name, or for a pattern of all of it
			if _, err := path.Match(test, ""); err != nil || strings.Contains(test, "*") && !strings.HasPrefix(test, "*") {
				t.Errorf("%s leaves out %s, which no test is called", s.name, test)
			}
		}
	}
}
