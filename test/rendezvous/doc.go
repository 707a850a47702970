// Package rendezvous asks a rendezvous server what Horovod's Gloo ranks ask of theirs (Horovod 0.28.1), for any
// number of ranks. testdata has what real ones asked, and record.py, which recorded it; the rule is theirs:
//
//	PUT /scope/rank_R           the host's name
//	GET /scope/rank_I           once, for each I < R
//	PUT /scope/R                136 bytes for each other rank: sockaddr_storage and a number
//	GET /scope/I                for each I other than R: 10 ms after each 404 again, and once more when it is there
//	(all ranks are connected)
//	DELETE /scope/R
//
// hvd.init() does so in six scopes, one after the other: global, local_HOST and cross_LOCALRANK, and the same again
// for the process set of all ranks. Each request has a connection of its own.
//
// The tests of agent/gloo and test/bench have it ask. It connects no ranks with each other, as Horovod's do.
package rendezvous
