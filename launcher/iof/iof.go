// Package iof merges the ranks' output onto the launcher's own streams and files.
//
//	Write(id, stream, data) ──▶ queue ──▶ lines ──▶ format ──▶ stdout
//	                       ├──▶ queue ──▶ lines ──▶ format ──▶ stderr
//	                       └──▶ queue ──────────────────────▶ DIR/rank.N/{stdout,stderr}
//	                                                    Written(id, n) when n bytes have left
//
// A process goes by its id here: the ranks of the command line's job have the first, jobs that
// ranks spawn get those that follow (Grow).
//
// # Lines
//
// A line ends with '\n'. Two ranks, or two streams of one rank that go to the same place, never
// share one, by these rules:
//
//   - Whole lines are written as they come.
//   - The beginning of a line is written at once when nobody else has written there for Hold:
//     prompts and progress bars appear. Otherwise it waits for its end, at most Hold, or until it
//     is longer than 64 KiB.
//   - A beginning that was written keeps the place to itself until Hold after its first byte;
//     what others have to say waits. Then the line is given up when another wants to write. With
//     tags, and on a terminal, a line end is put after it, and its rest gets a tag of its own.
//     Plain output to a file or pipe stays exact: nothing is added, the other rank's line follows
//     directly.
//   - A Python traceback on standard error keeps the place to itself likewise, where lines have no tags.
//
// Plain output without timestamps to a file or pipe is, rank by rank and byte by byte, what the
// ranks wrote. With tags every line begins with "[rank] ", those of spawned job 1 with "[1.rank] "
// (whose files are below job.1); with timestamps that is preceded by the time the host read the
// line's first bytes (UTC, RFC 3339 with milliseconds). '\r' starts a line anew, as on a terminal,
// and so gets a tag after it, unless '\n' follows.
//
// With OpenMPIStyle lines and files are as Open MPI 4's mpirun has them, for what reads those. A tag
// comes after '\n' only, "[1,3]<stdout>:" (job, counted from 1, and rank). Timestamps are in local time,
// "Fri Nov 20 23:27:10 2026[1,3]<stdout>:". Files are below the job's number, DIR/1/rank.3/stdout. With OpenMPI5Style
// they are below its name, DIR/prterun-w0-77@1/rank.3/stdout, or have it in theirs, FILE.prterun-w0-77@1.3.out.
//
// Prepend and Files are Hydra's ways: a text of the user's own before each line, files by patterns. Files have what stands before
// lines too with TagFiles, as both launchers' have.
//
// With JSON every line is one object:
//
//	{"time":"2026-11-20T23:27:10.042Z","rank":3,"host":"worker-1","stream":"stdout","text":"hi"}
//
// A spawned job's records have "job":1 before the rank. text is the line without its '\n'.
// "partial":true: the '\n' is not there (not yet, or never). Bytes that are not UTF-8 show as U+FFFD
// in text, and "base64" then has the exact bytes.
//
// # Concurrency
//
// Write, End, Close and Tail may be called from any goroutine, Grow from one. Write never blocks:
// what waits is bounded by the credit that the caller gives out, which Written brings back. One goroutine per
// destination writes; Run waits for all.
//
// # What it does not do
//
// It does not count credit or send frames (launcher) or read input (launcher/streams). It does not end the job when
// its streams are closed: it says so (Config.Broken), forgets what comes, and keeps credit going.
package iof

import "time"

// Mode is the form of the output.
type Mode int

// The forms.
const (
	Plain Mode = iota // the ranks' own bytes
	Tag               // "[rank] " before each line
	JSON              // an object a line
)

// Style is whose tags, timestamps and files they are; JSON is the same in all.
type Style int

// The styles.
const (
	OwnStyle      Style = iota
	OpenMPIStyle        // 4.1's
	OpenMPI5Style       // tags end in a blank, times stand in brackets
)

// TagForm is how OpenMPI5Style's tags name a process (src/common/pmix_iof.c of PMIx 5).
type TagForm int

// The forms.
const (
	TagProcess  TagForm = iota // "[1,3]<stdout>: ", the job's number and the rank
	TagRank                    // "[3]<stdout>: "
	TagDetailed                // "[1,3][worker-1:77]<stdout>: ", and its host and process number
	TagFullname                // "[prterun-w0-77@1,3]<stdout>: ", the job's name and the rank
)

// DefaultHold is how long the beginning of a line may keep others from writing, and how long
// it waits itself when others write.
const DefaultHold = 500 * time.Millisecond

// longLine is the length from which a line without end is no longer kept together.
const longLine = 64 << 10
