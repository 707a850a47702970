package pmi_test

import (
	"bufio"
	"net"
	"os"
	"syscall"
	"testing"

	"github.com/mpiup/mpiup/pmi"
	"github.com/mpiup/mpiup/pmi/kvs"
)

// What a rank of MPICH asks for until its first MPI_Barrier, over a socket pair as in a job.
func BenchmarkInit(b *testing.B) {
	lines := []string{
		"cmd=init pmi_version=1 pmi_subversion=1\n", "cmd=get_maxes\n", "cmd=get_appnum\n", "cmd=get_my_kvsname\n",
		"cmd=get kvsname=m0-7f3a key=PMI_process_mapping\n", "cmd=get kvsname=m0-7f3a key=PMI_hwloc_xmlfile\n",
		"cmd=put kvsname=m0-7f3a key=-bcast-1-0 value=0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef\n",
		"cmd=barrier_in\n", "cmd=get kvsname=m0-7f3a key=-bcast-1-0\n", "cmd=barrier_in\n", "cmd=barrier_in\n", "cmd=finalize\n",
	}
	b.ReportAllocs()
	for b.Loop() {
		space, err := kvs.New(kvs.Run{}).Add(kvs.Job{KVSName: "m0-7f3a", Size: 1, Local: []int{0}})
		if err != nil {
			b.Fatal(err)
		}
		client, server := pairOf(b)
		srv := pmi.New(pmi.Job{Space: space, Mapping: "(vector,(0,1,1))"})
		over := make(chan error)
		go func() { over <- srv.Serve(b.Context(), server, 0) }()
		r := bufio.NewReader(client)
		for _, l := range lines {
			if _, err := client.Write([]byte(l)); err != nil {
				b.Fatal(err)
			}
			if _, err := r.ReadSlice('\n'); err != nil {
				b.Fatal(err)
			}
		}
		client.Close()
		if err := <-over; err != nil {
			b.Fatal(err)
		}
		server.Close()
		space.Close(nil)
	}
}

func pairOf(b *testing.B) (client, server net.Conn) {
	fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		b.Fatal(err)
	}
	var ends [2]net.Conn
	for i, fd := range fds {
		f := os.NewFile(uintptr(fd), "pmi")
		if ends[i], err = net.FileConn(f); err != nil {
			b.Fatal(err)
		}
		f.Close()
	}
	return ends[0], ends[1]
}
