package training

import (
	"errors"
	"time"

	"github.com/mpiup/mpiup/launcher/cli/mpirun/line"
)

// Seconds reads a time of more than none.
func Seconds(s string) (time.Duration, error) {
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

// TorchrunHelp is what torchrun --help prints.
func TorchrunHelp() string {
	return "torchrun (mpiup), as of torch 2.15\n\nUsage:\n  torchrun [options] program [args]\n\nExamples:\n" +
		"  torchrun --nproc-per-node 4 train.py               # 4 ranks here\n" +
		"  torchrun --nnodes 2 --nproc-per-node 4 train.py    # 8 ranks on two of the job's hosts\n" +
		"  torchrun --nnodes 2 --nproc-per-node 4 --node-rank 1 --master-addr w0 train.py\n" + line.Options(new(Torchrun).rows())
}
