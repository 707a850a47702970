package main

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/mpiup/mpiup/test/netns"
)

// What a start costs at least over mutually authenticated gRPC: the skeleton is a launcher that connects to each
// host, sends it one message, and hears how the program ended that the host forked then. It watches nothing,
// binds nothing and cannot stop a rank. Its certificate lasts for all runs, where mpiup makes new ones for each.
// Without hosts it is a Go program that forks. What output costs at least is measured by a host that copies a program's
// output to a TLS connection, and a launcher that copies it to its own: no windows, no credits, no lines kept whole.

const (
	skeletonHere   = "here" // in place of a file: the arguments are programs, and forked
	skeletonPort   = "7777"
	skeletonFlood  = "7778" // its port says what is asked
	skeletonMethod = "/skeleton/Run"
)

var skeletonStream = grpc.StreamDesc{StreamName: "Run", ServerStreams: true, ClientStreams: true}

// skeletons takes turns with mpiup in starting true.
func (b *bench) skeletons(ctx context.Context, l *lab) (err error) {
	pair := filepath.Join(b.dir, "skeleton.pem")
	if err := writePair(pair); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	var agents []*netns.Cmd
	defer func() {
		cancel()
		for _, a := range agents {
			_ = a.Wait() // killed by cancel
		}
	}()
	for _, name := range l.cluster.Workers() {
		a := l.cluster.Command(ctx, name, l.self, "-skeleton", pair)
		if err := a.Start(); err != nil {
			return err
		}
		agents = append(agents, a)
	}
	for _, hosts := range []int{16, 64} {
		args := []string{l.self, "-skeleton", pair}
		for _, name := range l.cluster.Workers()[:hosts] {
			args = append(args, net.JoinHostPort(l.cluster.Addr(name).String(), skeletonPort))
		}
		if err := b.bare(fmt.Sprintf("%dx1 true", hosts), func() *netns.Cmd { return l.job(ctx, hosts, 1, "/bin/true") },
			func() *netns.Cmd { return l.cluster.Command(ctx, netns.Launcher, args...) }); err != nil {
			return err
		}
	}
	if err := b.bareFlood(ctx, l, pair); err != nil {
		return err
	}
	return b.bare("1x4 true without hosts", func() *netns.Cmd {
		return l.cluster.Command(ctx, netns.Launcher, l.b.mpiup, "run", "-n", "4", "/bin/true")
	},
		func() *netns.Cmd {
			return l.cluster.Command(ctx, netns.Launcher, l.self, "-skeleton", skeletonHere, "/bin/true", "/bin/true", "/bin/true", "/bin/true")
		})
}

// bare measures commands of mpiup and of the skeleton, in turn.
func (b *bench) bare(what string, full, skeleton func() *netns.Cmd) error {
	var walls, cpus [2][]float64
	for round := range b.rounds + 1 {
		for i, command := range []func() *netns.Cmd{full, skeleton} {
			cmd, start := command(), time.Now()
			cmd.Env = environ(start)
			if out, err := cmd.CombinedOutput(); err != nil {
				return fmt.Errorf("%s: %q: %w: %s", what, cmd.Args, err, out)
			}
			if round > 0 {
				walls[i] = append(walls[i], ms(time.Since(start)))
				cpus[i] = append(cpus[i], ms(cmd.ProcessState.UserTime()+cmd.ProcessState.SystemTime()))
			}
		}
	}
	b.compare(what+", wall", "ms", walls[0], "skeleton", walls[1], 0)
	b.compare(what+", CPU of the launcher and its children", "ms", cpus[0], "skeleton", cpus[1], 0)
	return nil
}

// bareFlood measures how fast the output of four hosts comes out of mpiup and of the skeleton, in turn.
func (b *bench) bareFlood(ctx context.Context, l *lab, pair string) error {
	args := []string{l.self, "-skeleton", pair}
	for _, name := range l.cluster.Workers()[:floodHosts] {
		args = append(args, net.JoinHostPort(l.cluster.Addr(name).String(), skeletonFlood))
	}
	var rates [2][]float64
	for round := range b.rounds + 1 {
		full, _, err := b.flood(ctx, l)
		if err != nil {
			return err
		}
		bare, _, err := drain(l.cluster.Command(ctx, netns.Launcher, args...))
		if err != nil {
			return err
		}
		if round > 0 {
			rates[0], rates[1] = append(rates[0], full), append(rates[1], bare)
		}
	}
	b.compare("4x1 output out of the launcher", "MB/s", rates[0], "skeleton", rates[1], 0)
	return nil
}

// writePair writes a key and a certificate that signs itself, which launcher and hosts share.
func writePair(file string) error {
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return err
	}
	c := &x509.Certificate{SerialNumber: big.NewInt(1), DNSNames: []string{"skeleton"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth}}
	cert, err := x509.CreateCertificate(rand.Reader, c, c, public, private)
	if err != nil {
		return err
	}
	key, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		return err
	}
	var text bytes.Buffer
	if err := errors.Join(pem.Encode(&text, &pem.Block{Type: "CERTIFICATE", Bytes: cert}),
		pem.Encode(&text, &pem.Block{Type: "PRIVATE KEY", Bytes: key})); err != nil {
		return err
	}
	return os.WriteFile(file, text.Bytes(), 0o600)
}

// skeleton is a host's agent, or the launcher where there are hosts.
func skeleton(pair string, hosts []string) error {
	if pair == skeletonHere {
		return forkAll(hosts)
	}
	cert, err := tls.LoadX509KeyPair(pair, pair)
	if err != nil {
		return err
	}
	pool := x509.NewCertPool()
	leaf, err := x509.ParseCertificate(cert.Certificate[0])
	if err != nil {
		return err
	}
	pool.AddCert(leaf)
	config := &tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS13, ServerName: "skeleton",
		RootCAs: pool, ClientCAs: pool, ClientAuth: tls.RequireAndVerifyClientCert}
	creds := credentials.NewTLS(config)
	if len(hosts) > 0 {
		ends := make(chan error, len(hosts))
		for _, host := range hosts {
			go func() {
				if strings.HasSuffix(host, ":"+skeletonFlood) {
					ends <- skeletonTake(host, config)
				} else {
					ends <- skeletonRun(host, creds)
				}
			}()
		}
		for range hosts {
			err = errors.Join(err, <-ends)
		}
		return err
	}
	listener, err := net.Listen("tcp", ":"+skeletonPort)
	if err != nil {
		return err
	}
	floods, err := tls.Listen("tcp", ":"+skeletonFlood, config)
	if err != nil {
		return err
	}
	go skeletonGive(floods) // until the process is killed
	return grpc.NewServer(grpc.Creds(creds), grpc.UnknownServiceHandler(skeletonServe)).Serve(listener)
}

func forkAll(programs []string) (err error) {
	ends := make(chan error, len(programs))
	for _, program := range programs {
		go func() { ends <- exec.Command(program).Run() }()
	}
	for range programs {
		err = errors.Join(err, <-ends)
	}
	return err
}

func skeletonRun(host string, creds credentials.TransportCredentials) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	conn, err := grpc.NewClient("passthrough:"+host, grpc.WithTransportCredentials(creds))
	if err != nil {
		return err
	}
	defer conn.Close()
	s, err := conn.NewStream(ctx, &skeletonStream, skeletonMethod)
	if err != nil {
		return err
	}
	var answer wrapperspb.StringValue
	if err := errors.Join(s.SendMsg(wrapperspb.String("/bin/true")), s.CloseSend(), s.RecvMsg(&answer)); err != nil {
		return fmt.Errorf("%s: %w", host, err)
	}
	if answer.GetValue() != "0" {
		return fmt.Errorf("%s: %s", host, answer.GetValue())
	}
	return nil
}

// skeletonTake copies to standard output what a host sends.
func skeletonTake(host string, config *tls.Config) error {
	conn, err := tls.Dial("tcp", host, config)
	if err != nil {
		return err
	}
	defer conn.Close()
	_, err = io.CopyBuffer(struct{ io.Writer }{os.Stdout}, conn, make([]byte, 256<<10))
	return err
}

// skeletonGive sends each who connects what a flood writes.
func skeletonGive(listener net.Listener) {
	for {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		go func() {
			defer conn.Close()
			cmd := exec.Command("/proc/self/exe", "-flood", strconv.Itoa(floodMB))
			out, err := cmd.StdoutPipe()
			if err == nil && cmd.Start() == nil {
				_, _ = io.CopyBuffer(struct{ io.Writer }{conn}, out, make([]byte, 256<<10)) // the launcher counts what comes
				_ = cmd.Wait()
			}
		}()
	}
}

func skeletonServe(_ any, s grpc.ServerStream) error {
	var program wrapperspb.StringValue
	if err := s.RecvMsg(&program); err != nil {
		return err
	}
	cmd := exec.CommandContext(s.Context(), program.GetValue())
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	err := cmd.Run()
	if cmd.ProcessState == nil {
		return s.SendMsg(wrapperspb.String(err.Error()))
	}
	return s.SendMsg(wrapperspb.String(strconv.Itoa(cmd.ProcessState.ExitCode())))
}
