// Package dial puts gRPC on one connection that is ready: handshaken, its other side proven.
//
//	dial, TLS ──▶ connection ──ready──▶ Over: gRPC ──▶ apiv1 client
//
// A client has that connection and no other: once it is gone every call fails, and who wants another one dials anew
// in its own way. Closing the client closes the connection.
//
// Over may be called before there is a connection, from any goroutine; what gRPC starts ends with the client's Close.
//
// It makes no connection and speaks no TLS: internal/identity does.
package dial

import (
	"context"
	"errors"
	"net"

	"google.golang.org/grpc"

	"github.com/mpiup/mpiup/internal/identity"
)

// Over is gRPC on the connection that comes through ready; a closed ready means that none comes any more. addr is for
// messages.
func Over(addr string, ready <-chan net.Conn, options ...grpc.DialOption) (*grpc.ClientConn, error) {
	once := func(ctx context.Context, _ string) (net.Conn, error) {
		select {
		case conn, ok := <-ready:
			if !ok {
				return nil, errors.New("the connection is gone")
			}
			return conn, nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	return grpc.NewClient("passthrough:///"+addr, append([]grpc.DialOption{
		grpc.WithContextDialer(once),
		grpc.WithTransportCredentials(identity.ClientTransport()),
		grpc.WithDisableServiceConfig(), grpc.WithDisableRetry(), grpc.WithDisableHealthCheck(), grpc.WithNoProxy(),
		grpc.WithIdleTimeout(0),
	}, options...)...)
}
