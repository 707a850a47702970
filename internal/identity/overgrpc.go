package identity

import (
	"context"
	"errors"
	"net"

	"google.golang.org/grpc"
)

// OverGRPC is gRPC on the connection that comes through ready; a closed ready means that none comes any more. addr is for
// messages. A client has that connection and no other: once it is gone every call fails, and who wants another one dials anew in its own way.
// Closing the client closes the connection, and ends what gRPC has started. OverGRPC may be called before there is a connection, from any goroutine.
func OverGRPC(addr string, ready <-chan net.Conn, options ...grpc.DialOption) (*grpc.ClientConn, error) {
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
		grpc.WithTransportCredentials(ClientTransport()),
		grpc.WithDisableServiceConfig(), grpc.WithDisableRetry(), grpc.WithDisableHealthCheck(), grpc.WithNoProxy(),
		grpc.WithIdleTimeout(0),
	}, options...)...)
}
