package identity

import (
	"context"
	"errors"
	"net"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"
)

// AuthInfo is what gRPC knows of a connection's other side.
type AuthInfo struct {
	credentials.CommonAuthInfo
	Peer Peer
}

// AuthType is "tls".
func (AuthInfo) AuthType() string { return "tls" }

// Transport is for a gRPC server that is handed connections whose handshake is done (from Accept), since the listener told gRPC and gossip
// apart by ALPN, and for a client whose dialer returns connections from Connect. It refuses any other.
func Transport() credentials.TransportCredentials { return handshaken{} }

// PeerFromContext says who called, in a handler of a server with Transport.
func PeerFromContext(ctx context.Context) (Peer, bool) {
	p, ok := peer.FromContext(ctx)
	if !ok {
		return Peer{}, false
	}
	info, ok := p.AuthInfo.(AuthInfo)
	return info.Peer, ok
}

type handshaken struct{}

func (h handshaken) ClientHandshake(_ context.Context, _ string, conn net.Conn) (net.Conn, credentials.AuthInfo, error) {
	return h.ServerHandshake(conn)
}

func (handshaken) ServerHandshake(conn net.Conn) (net.Conn, credentials.AuthInfo, error) {
	c, ok := conn.(*Conn)
	if !ok || c.who.Role == "" {
		return nil, nil, errors.New("identity: a connection whose other side is not proven was handed to gRPC")
	}
	return conn, AuthInfo{
		CommonAuthInfo: credentials.CommonAuthInfo{SecurityLevel: credentials.PrivacyAndIntegrity},
		Peer:           c.who,
	}, nil
}

func (handshaken) Info() credentials.ProtocolInfo {
	return credentials.ProtocolInfo{SecurityProtocol: "tls"}
}

func (h handshaken) Clone() credentials.TransportCredentials { return h }

func (handshaken) OverrideServerName(string) error { return nil }
