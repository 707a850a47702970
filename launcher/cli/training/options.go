package training

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/mpiup/mpiup/launcher/cli/mpirun/line"
)

// read takes the options at the front of args, as Python's argparse does, and returns the program's words. split takes a word apart; noted is
// told each option with its words once it was carried out, and says whether nothing more is to be read.
func read(args []string, rows []line.Row, without *[]string, split func(word string) (name, value string, joined bool),
	noted func(r *line.Row, words []string) (over bool)) ([]string, error) {
	table := line.Index(rows)
	for len(args) > 0 && strings.HasPrefix(args[0], "-") {
		word := args[0]
		args = args[1:]
		if word == "--" {
			break
		}
		name, value, joined := split(word)
		r := table[name]
		var values []string
		switch {
		case r == nil:
			return nil, line.Unknown(word, name, table)
		case r.Level == line.Refused:
			return nil, fmt.Errorf("%.60s: %s", word, r.Means)
		case joined && r.Args == 0:
			return nil, fmt.Errorf("%.60s: %s takes no value", word, name)
		case joined:
			values = []string{value}
		}
		more := r.Args - len(values)
		if more > len(args) {
			return nil, fmt.Errorf("%s needs a value", name)
		}
		words := append([]string{word}, args[:more]...)
		values, args = append(values, args[:more]...), args[more:]
		if err := carryOut(r, strings.Join(words, " "), values, without); err != nil {
			return nil, err
		}
		if noted(r, words) {
			return nil, nil
		}
	}
	return args, nil
}

// carryOut does what an option says that was written so.
func carryOut(r *line.Row, written string, values []string, without *[]string) error {
	switch r.Level {
	case line.NoEffect:
		*without = append(*without, written)
		return nil
	case line.Refused:
		return fmt.Errorf("%.60s: %s", written, r.Means)
	}
	if err := r.Set(values); err != nil {
		return fmt.Errorf("%.200s: %w", written, err)
	}
	return nil
}

// seconds reads a time of more than none.
func seconds(s string) (time.Duration, error) {
	n, err := line.Number(s, 1, 1<<20)
	if err != nil {
		return 0, errors.New("that is no number of seconds")
	}
	return time.Duration(n) * time.Second, nil
}

// HorovodrunHelp is what horovodrun --help prints.
func HorovodrunHelp() string {
	return "horovodrun (mpiup), as of Horovod 0.28\n\nUsage:\n  horovodrun -np N [options] program [args]\n\nExamples:\n" +
		"  horovodrun -np 4 python train.py\n  horovodrun -np 16 -H w0:8,w1:8 --gloo python train.py\n" + line.Options(new(Horovodrun).rows())
}

// HorovodrunVersion is what horovodrun --version prints.
func HorovodrunVersion(mpiup string) string { return "0.28.1 (mpiup " + mpiup + ")\n" }

// TorchrunHelp is what torchrun --help prints.
func TorchrunHelp() string {
	return "torchrun (mpiup), as of torch 2.15\n\nUsage:\n  torchrun [options] program [args]\n\nExamples:\n" +
		"  torchrun --nproc-per-node 4 train.py               # 4 ranks here\n" +
		"  torchrun --nnodes 2 --nproc-per-node 4 train.py    # 8 ranks on two of the job's hosts\n" +
		"  torchrun --nnodes 2 --nproc-per-node 4 --node-rank 1 --master-addr w0 train.py\n" + line.Options(new(Torchrun).rows())
}
