package member

// The vetting keeps from memberlist what would cost it much more memory than its bytes are long. Its decoder
// (go-msgpack 2.1) makes room for as many bytes as a length says before it reads any. memberlist does so for as
// many nodes as a header says. 36 bytes of one packet cost 2 GiB, 12 of a stream 100 MiB.
//
//	packet:  [crc32] message, or a compound of messages         vetPacket says whether it may be read
//	stream:  type, header {Nodes UserStateLen Join}, nodes, user state      a vetReader lets it through item by item
//	message: a type and one msgpack value, whose lengths must be of bytes that are there
//
// It lets only through what our agents send: no labels, no compressed or encrypted messages, no user messages in
// streams (memberlist's net.go, protocol versions 1 to 5). vetPacket is a function of its bytes; a vetReader belongs to
// one goroutine. Nobody here looks at what messages mean.
