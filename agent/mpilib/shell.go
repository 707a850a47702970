package mpilib

import "github.com/mpiup/mpiup/agent/mpilib/script"

// maxTries is how many commands of one script are looked at, the last ones.
const maxTries = 16

// shell looks at the commands of a shell's script, the last first: that is the one it is there for.
func (k *look) shell(c command, depth int) hit {
	text, file, argv := script.Invoked(c)
	if file != "" {
		text = k.Read(file)
	}
	commands := script.Commands(text, command{Argv: argv, Env: c.Env, Dir: c.Dir}, maxTries, k)
	for i := len(commands) - 1; i >= 0; i-- {
		if h := k.command(commands[i], depth+1); h.found() {
			h.sure = h.sure && i == len(commands)-1
			return h
		}
	}
	return hit{}
}

// What a script asks of where it runs; command.go and conda.go have the rest.

func (k *look) Step(n int) bool { return k.files.step(n) }

func (k *look) Read(file string) string { return string(k.files.head(file, maxScript)) }

func (k *look) Real(p string) string { return k.files.real(p) }
