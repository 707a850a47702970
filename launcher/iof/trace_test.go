package iof

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/mpiup/mpiup/internal/job"
)

// Exceptions are told with how they came of each other, whatever wrote them and in whatever pieces they come.
func TestTraces(t *testing.T) {
	const head, frame = "Traceback (most recent call last):\n", "  File \"/app/train.py\", line 6, in <module>\n    main()\n"
	const cause, context = "\nThe above exception was the direct cause of the following exception:\n\n", "\nDuring handling of the above exception, another exception occurred:\n\n"
	own := func(text string, link job.Link) Raised {
		return Raised{Text: text, Where: "train.py:6", Own: true, Link: link}
	}
	for _, tt := range []struct {
		name, said string
		want       []Raised
	}{
		{"a direct cause", head + frame + "OSError: a\n" + cause + head + frame + "SystemError: b\n", []Raised{own("OSError: a", 0), own("SystemError: b", job.FromCause)}},
		{"while one was handled", head + frame + "OSError: a\n" + context + head + frame + "SystemError: b\n", []Raised{own("OSError: a", 0), own("SystemError: b", job.WhileHandling)}},
		{"both without tracebacks", "retrying\nhttp.ConnectError: [Errno -2] a\n" + cause + "hub.ConnectError: b\n" + cause + head + frame + "OSError: c\n",
			[]Raised{{Text: "http.ConnectError: [Errno -2] a"}, {Text: "hub.ConnectError: b", Link: job.FromCause}, own("OSError: c", job.FromCause)}},
		{"a chain of ten", strings.Repeat(head+frame+"OSError: a\n"+cause, 9) + head + frame + "SystemError: b\n",
			[]Raised{own("OSError: a", 0), own("OSError: a", job.FromCause), own("OSError: a", job.FromCause), own("OSError: a", job.FromCause), own("OSError: a", job.FromCause), own("SystemError: b", job.FromCause)}},
		{"a message with an empty line in a chain", head + frame + "hub.NotFound: 404\n\nRepository Not Found\nPlease look\n" + cause + head + frame + "OSError: b\n",
			[]Raised{own("hub.NotFound: 404\nRepository Not Found\nPlease look", 0), own("OSError: b", job.FromCause)}},
		{"one of another rank's", "[rank3]: " + head + "[rank3]:   File \"/app/train.py\", line 6, in <module>\n[rank3]: hub.NotFound: 404\n\n[rank3]: \n[rank3]: not there\n 50%|█████     | 2/4 [00:04<00:04,  2.31s/it]\nbye\n",
			[]Raised{own("hub.NotFound: 404\nnot there", 0)}},
		{"notes", head + frame + "OSError: a\nbatch 3\nshard 7\nof epoch 2\n", []Raised{own("OSError: a\nbatch 3\nshard 7\nof epoch 2", 0)}},
		{"a log's line after the message", head + frame + "OSError: a\nbatch 3\n2026-11-28 23:42:50 INFO closing\n", []Raised{own("OSError: a\nbatch 3", 0)}},
		{"a warning after it", head + frame + "OSError: a\n/usr/lib/python3.11/resource_tracker.py:224: UserWarning: leaked\n  warnings.warn('x')\n", []Raised{own("OSError: a", 0)}},
		{"frames of C++ after it", head + frame + "RuntimeError: a\nncclSystemError: b\nLast error:\nc\nException raised from d:\nframe #0: e\n", []Raised{own("RuntimeError: a\nncclSystemError: b\nLast error:\nc", 0)}},

		{"a worker's", head + frame + "ValueError: Caught ValueError in DataLoader worker process 0.\nOriginal " + head + frame + "ValueError: a\n\n", []Raised{own("ValueError: Caught ValueError in DataLoader worker process 0.", 0), own("ValueError: a", job.Quoted)}},
		{"a pool's", "multiprocessing.pool.RemoteTraceback: \n\"\"\"\n" + head + frame + "ValueError: a\n\"\"\"\n" + cause + head + frame + "ValueError: a\n",
			[]Raised{own("ValueError: a\n\"\"\"", 0), own("ValueError: a", job.FromCause)}},
		{"spawn's", head + frame + "torch.multiprocessing.spawn.ProcessRaisedException: \n\n-- Process 1 terminated with the following error:\n" + head + frame + "ValueError: a\n\n",
			[]Raised{own("torch.multiprocessing.spawn.ProcessRaisedException:", 0), own("ValueError: a", job.Quoted)}},
		{"a checkpoint's", head + frame + "CheckpointException: CheckpointException ranks:dict_keys([0, 1])\n" + strings.TrimSuffix(head, "\n") + " (RANK 0)\n" + frame + "OSError: a\n" + strings.TrimSuffix(head, "\n") + " (RANK 1)\n" + frame + "OSError: b\n\n",
			[]Raised{own("CheckpointException: CheckpointException ranks:dict_keys([0, 1])", 0), own("OSError: a", job.Quoted), own("OSError: b", job.Quoted)}},
		{"one after another, which are no chain", head + frame + "ValueError: a\n" + head + frame + "ValueError: b\n", []Raised{own("ValueError: a", 0), own("ValueError: b", 0)}},

		{"a script that is no Python", "  File \"/app/train.py\", line 6\n    x = = 1\n        ^\nSyntaxError: invalid syntax\n", []Raised{own("SyntaxError: invalid syntax", 0)}},
		{"a module that is none", head + "  File \"/app/main.py\", line 1, in <module>\n    import train\n  File \"/app/train.py\", line 6\n    x = 1\nIndentationError: unexpected indent\n", []Raised{own("IndentationError: unexpected indent", 0)}},
		{"a library that is none", head + frame + "  File \"/usr/lib/python3/dist-packages/train.py\", line 6\n    x = = 1\nSyntaxError: invalid syntax\n", []Raised{own("SyntaxError: invalid syntax", 0)}},
		{"tabs and blanks", head + frame + "  File \"/app/train.py\", line 6\n    \tx\nTabError: inconsistent use of tabs and spaces in indentation\n", []Raised{own("TabError: inconsistent use of tabs and spaces in indentation", 0)}},

		{"rich's", "╭───── Traceback (most recent call last) ─────╮\n│ /app/train.py:6 in <module>                 │\n│                                             │\n│ ❱ 6 main()                                  │\n╰─────────────────────────────────────────────╯\nValueError: the loss is nan at step 200 with\nlearning rate 0.1\n",
			[]Raised{own("ValueError: the loss is nan at step 200 with learning rate 0.1", 0)}},
		{"rich's without its box's letters", "+----- Traceback (most recent call last) -----+\n| /app/train.py:6 in <module>                 |\n| > 6 main()                                  |\n+---------------------------------------------+\nValueError: a\n", []Raised{own("ValueError: a", 0)}},
		{"rich's of a path that it broke", "╭───── Traceback (most recent call last) ─────╮\n│ /data/a/folder/with/a/long/name/and/more/tra │\n│ in.py:6 in <module>                         │\n╰─────────────────────────────────────────────╯\nValueError: a\n", []Raised{own("ValueError: a", 0)}},
		{"rich's of a chain", "╭─ Traceback (most recent call last) ─╮\n│ /app/train.py:6 in load             │\n╰─────────────────────────────────────╯\nOSError: a\n" + cause + "╭─ Traceback (most recent call last) ─╮\n│ /app/train.py:6 in main             │\n│ /opt/venv/lib/python3.11/site-packages/x.py:9 in y │\n╰─────────────────────────────────────╯\nSystemError: b\n",
			[]Raised{own("OSError: a", 0), own("SystemError: b", job.FromCause)}},

		{"the interpreter's own line last", head + frame + "  File \"<frozen os>\", line 679, in __getitem__\nKeyError: 'X'\n", []Raised{own("KeyError: 'X'", 0)}},
		{"a library's last", head + frame + "  File \"/opt/conda/lib/python3.11/site-packages/x.py\", line 9, in y\nKeyError: 'X'\n", []Raised{own("KeyError: 'X'", 0)}},
		{"a library's in lib64", head + frame + "  File \"/usr/lib64/python3.9/json/decoder.py\", line 9, in y\nKeyError: 'X'\n", []Raised{own("KeyError: 'X'", 0)}},
		{"a program of an image", head + "  File \"/usr/local/bin/torchrun\", line 8, in <module>\n" + frame + "  File \"<string>\", line 3, in __init__\nKeyError: 'X'\n", []Raised{own("KeyError: 'X'", 0)}},
		{"python -c", head + "  File \"<string>\", line 1, in <module>\n  File \"<frozen os>\", line 679, in __getitem__\nKeyError: 'X'\n", []Raised{{Text: "KeyError: 'X'", Where: "<string>:1", Own: true}}},
		{"libraries alone", head + "  File \"/usr/lib/python3.11/runpy.py\", line 3, in x\n  File \"<frozen os>\", line 679, in __getitem__\nKeyError: 'X'\n", []Raised{{Text: "KeyError: 'X'", Where: "runpy.py:3"}}},

		{"an uncaught exception of a thread", "Exception in thread Thread-1 (work):\n" + head + frame + "ValueError: a\n", []Raised{own("ValueError: a", 0)}},
		{"words that begin no traceback", "The above exception is explained below\n  File \"x\" is missing\nFooError: a\n", nil},
		{"Paddle's of C++", "C++ Traceback (most recent call last):\n0   paddle::x\nErrorMessageSummary:\n", nil},
	} {
		for _, cut := range []int{1 << 15, 1, 7, 100} {
			for _, before := range []string{"", strings.Repeat("1\n2\n3\n4\n5\n6\n7\n8\n9\n10\n11\n", 2)} {
				text := before + tt.said
				w := &words{of: map[int]*hearing{}, out: map[int]*hearing{}}
				for at := 0; at < len(text); at += cut {
					w.add(5, job.Stderr, []byte(text[at:min(at+cut, len(text))]))
				}
				if d := cmp.Diff(tt.want, w.words(5).Raised, cmpopts.IgnoreFields(Raised{}, "At", "Deep", "Piped"), cmpopts.EquateEmpty()); d != "" {
					t.Fatalf("%s by %d behind %d bytes: %s", tt.name, cut, len(before), d)
				}
			}
		}
	}
}

// A message is taken to its end, its end is kept where it is long, and lines of who went on are none of it.
func TestMessages(t *testing.T) {
	const head = "Traceback (most recent call last):\n  File \"/app/train.py\", line 6, in <module>\nError: begins\n"
	many := func(form string) (text string) {
		for i := range 50 {
			text += fmt.Sprintf(form, i)
		}
		return text
	}
	for _, tt := range []struct{ name, said, begins, ends string }{
		{"of 50 lines", head + many("\tsize mismatch for %d\n"), "Error: begins\n\tsize mismatch for 0\n", "(39 lines more)\n\tsize mismatch for 48\n\tsize mismatch for 49"},
		{"of 50 lines of a rank's", "[rank1]: " + strings.ReplaceAll(strings.TrimSpace(head), "\n", "\n[rank1]: ") + "\n" + many("[rank1]: part %d\n"), "Error: begins\npart 0\n", "part 48\npart 49"},
		{"of a program that went on", head + many("epoch %d\n"), "Error: begins\nepoch 0\nepoch 1", "Error: begins\nepoch 0\nepoch 1"},
		{"of a program that went on after an empty line", head + "\n" + many("epoch %d\n"), "Error: begins", "Error: begins"},
		{"of long lines", head + strings.Repeat("\t"+strings.Repeat("x", 700)+"\n", 9) + "\tends\n", "Error: begins\n\txxx", "\n\tends"},
	} {
		w := &words{of: map[int]*hearing{}, out: map[int]*hearing{}}
		w.add(5, job.Stderr, []byte(tt.said))
		got := w.words(5).Raised
		if len(got) != 1 || !strings.HasPrefix(got[0].Text, tt.begins) || !strings.HasSuffix(got[0].Text, tt.ends) || len(got[0].Text) > maxTold+len("\n...\n") {
			t.Errorf("%s: %+v", tt.name, got)
		}
	}
}
