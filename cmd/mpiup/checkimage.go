package main

import (
	"fmt"
	"os"
	"os/user"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/mpiup/mpiup/agent/checkup"
	"github.com/mpiup/mpiup/agent/checkup/image"
	"github.com/mpiup/mpiup/agent/host"
	"github.com/mpiup/mpiup/agent/watch"
	"github.com/mpiup/mpiup/cmd/mpiup/install"
	"github.com/mpiup/mpiup/internal/bounded"
	"github.com/mpiup/mpiup/internal/job"
	"github.com/mpiup/mpiup/internal/visible"
	"github.com/mpiup/mpiup/launcher/doctor"
)

func checkImageCommand(p *process) *cobra.Command {
	var (
		program      string
		strict, json bool
	)
	c := &cobra.Command{
		Use:   "check-image [flags] [-- program [args]]",
		Short: "Look at the image that this runs in, for a Dockerfile or CI: MPI, libraries, names, user",
		Long: `Look at the image that this runs in, as a job's container: which MPI libraries it has and which of them the program loads, which
protocol its ranks get, what libraries are missing, who mpirun and ssh are, what ssh left, as which user it runs, and where that may write.
Files are read, and nothing is executed. It needs no cluster, and asks no agent.

Each line is ok, unknown (??), a warning or a failure, with what to do. The exit code is 1 when something fails, with --strict also
when something warns, else 0. What a user may write is asked for the one that it runs as: put the RUN behind the Dockerfile's USER.`,
		Example: `  RUN mpiup check-image --program /opt/train       in a Dockerfile, behind USER
  mpiup check-image --strict --json
  mpiup check-image -- python3 train.py`,
		RunE: func(_ *cobra.Command, args []string) error {
			switch {
			case program != "" && len(args) > 0:
				return usage(fmt.Errorf("check-image: the program is given twice, as --program %s and behind --", program))
			case program != "":
				args = []string{program}
			}
			return checkImage(p, args, strict, json)
		},
	}
	fs := c.Flags()
	fs.SetInterspersed(false)
	fs.StringVar(&program, "program", "", "look at `P` as ranks would run it, with its libraries; with arguments write them behind --")
	fs.BoolVar(&strict, "strict", false, "exit with 1 after a warning, too")
	fs.BoolVar(&json, "json", false, "print JSON")
	return c
}

// answerPatience is how long a file of the image may take to be opened or read.
const answerPatience = 15 * time.Second

func checkImage(p *process, program []string, strict, json bool) error {
	facts, findings := image.CheckAnswering(image.Config{
		Files: bounded.Tree("/"), Env: p.env, Dir: dirOrRoot(), Program: program, UID: os.Getuid(), Version: version, Names: appletNames(),
		Temp: host.RunDir(p.getenv("TMPDIR"), os.Getuid()), Ours: install.Ours,
		Watch: watch.CheckLibrary(helpers().Waits),
		Write: func(dir string) error { return checkup.LookTemp(dir, lookPatience).Err },
		User: func(uid int) string {
			u, err := user.LookupId(strconv.Itoa(uid))
			if err != nil {
				return ""
			}
			return u.Username
		},
		Size: func(dir string) uint64 {
			var st unix.Statfs_t
			if err := unix.Statfs(dir, &st); err != nil {
				return 0
			}
			return st.Blocks * uint64(st.Bsize)
		},
	}, answerPatience)
	report := doctor.Listed(findingsOf(findings))
	var err error
	if json {
		err = visible.JSON(p.stdout, struct {
			Image image.Facts `json:"image"`
			*doctor.Report
		}{facts, report})
	} else {
		err = report.Text(p.stdout, doctor.Full)
	}
	if report.Verdict == doctor.Fail || strict && report.Verdict == doctor.Warn {
		p.code = job.ExitUnfit
	}
	return err
}

// findingsOf are an agent's findings as a launcher's.
func findingsOf(list []checkup.Finding) (findings []doctor.Finding) {
	words := map[checkup.Verdict]string{checkup.Pass: doctor.Pass, checkup.Warn: doctor.Warn, checkup.Fail: doctor.Fail, checkup.Unknown: doctor.Unknown}
	for _, f := range list {
		findings = append(findings, doctor.Finding{Check: f.Name, Verdict: words[f.Verdict], Text: visible.UTF8(f.Text), Fix: f.Fix})
	}
	return findings
}
