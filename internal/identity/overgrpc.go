package identity

import (
	"context"
	"fmt"
	"net"

	"google.golang.org/grpc"
)

// OverGRPC is gRPC on the connection that comes through ready. Send one at most, then close ready: once the connection is gone, or none
// came, every call fails. Who wants another dials anew in its own way. addr is for messages.
// Closing the client ends what gRPC has started, and closes the connection if gRPC has taken it; its owner closes it as well.
// OverGRPC may be called before there is a connection, from any goroutine.
func OverGRPC(addr string, ready <-chan net.Conn, options ...grpc.DialOption) (*grpc.ClientConn, error) {
	once := func(ctx context.Context, _ string) (net.Conn, error) {
		select {
		case conn, ok := <-ready:
			if !ok {
				return nil, fmt.Errorf("the connection to %s is gone", addr)
			}
			return conn, nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	return grpc.NewClient("passthrough:///"+addr, append([]grpc.DialOption{
		grpc.WithContextDialer(once),
		grpc.WithTransportCredentials(Transport()),
		grpc.WithDisableServiceConfig(), grpc.WithDisableRetry(), grpc.WithDisableHealthCheck(), grpc.WithNoProxy(),
		grpc.WithIdleTimeout(0),
	}, options...)...)
}
