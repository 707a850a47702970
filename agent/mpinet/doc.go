// Package mpinet chooses the interface of this host that the ranks' MPI libraries use for TCP. It tells each library, in
// its own variables, that interface and the range of ports to listen on.
//
//	--net net1 ────────────────────────────▶ the interface of that name      ┐
//	--net 10.98.0.0/16 ────────────────────▶ the first with an address in it │  OMPI_MCA_btl_tcp_if_include
//	nothing, one interface ────────────────▶ none: nothing is set            ├─▶ UCX_NET_DEVICES
//	nothing, several ──RDMA-backed, not the ▶ that one                       │  FI_TCP_IFACE
//	                   default route's                                       │  NCCL_SOCKET_IFNAME ...
//	                 └─else────────────────▶ the one of the default route    ┘
//
// A pod with several interfaces (Multus, hostNetwork) makes some libraries use all of them, and some the wrong
// one, whose packets go nowhere. The choice is each host's own: names may differ where networks do not.
//
// Reading, choosing and naming are apart: Links and Read know the host, Choose and Variables are pure.
// The package keeps nothing, and all of it may be called from any goroutine.
//
// Of the libraries' own files it reads Open MPI's only (mcafiles.go). It does not choose RDMA devices.
package mpinet
