// Package port is the one TCP port of an agent: it accepts, lets TLS prove who calls, and hands the connections on.
//
//	accepted ──handshake──▶ ALPN ──"h2"──────▶ Sessions   a gRPC server's listener
//	   │  crowd: bounded,    ├──asking───────▶ Questions  another's
//	   │  the greediest goes └──gossip───────▶ Gossip
//	   ▼
//	Unread: bytes or connections that arrived and nobody has looked at yet
//
// Concurrency: New only builds. Run accepts until Close, which ends every connection that came through the port and
// returns when all handshakes are over. All methods may be called by several goroutines.
//
// It does not know what is said over a connection, nor what its callers may do.
package port
