// Package member keeps the list of a job's agents: who is there, at which address, with what.
// It informs and decides nothing: no rank, session or readiness depends on it.
//
//	Seeds (DNS, operators' files) ──▶ join ─┐
//	                                        ▼
//	  Handle (accepted, ALPN) ──▶ transport ◀──▶ memberlist ──▶ table ──▶ View
//	  Dial   (to peers)       ──▶   │   frames      SWIM         rules     immutable
//	                                └── what is sent: suspicions ──▶ table
//
// memberlist (hashicorp) is the protocol: probes, suspicion, refutation, gossip, push/pull. It
// runs on our transport over the agent's TLS connections, without UDP or a key of its own, and
// shows nowhere in the interface. Three things are added to it. Suspicion becomes visible, and
// its length does not grow with the number of members. Somebody under suspicion is told so
// every second until it answers or is dropped, so a healed cut has healed within two seconds.
// And a pod that comes back with another address replaces what it was (view.go, verify.go).
//
// Numbers of launchers' lives travel too, each signed by its launcher (claims.go): a peer can pass on what a launcher
// said and make up nothing.
//
// Who a peer is was settled by TLS before Dial returns or Handle is called. What peers say in
// gossip, metadata and addresses included, is taken as hostile input: bounded and checked.
//
// New builds, Run blocks until all it started has ended. Every method may be called at any time from any goroutine;
// before and after Run, Handle hangs up and View shows ourselves. After Run has returned, some goroutines of
// memberlist still wait for a timer (a probe under way, a negative answer to send). They touch nothing and end within
// two seconds. Its suspicion timers, which are no goroutines, run out without effect.
//
// It does not resolve names, listen, speak TLS, or end anything because a peer is gone.
package member
