// Package attack holds attacks on mpiup, each by somebody of docs/security.md's threat model: a stranger, a rank, a
// neighbour on the node, the holder of a worker's certificate, a hostile file or name. Each test plays one of them
// against the real binary on loopback, with what that actor has and nothing more, and passes when nothing came of it.
//
// Attacks on one function stand beside it. The table in docs/data/attacks.tsv says which attack is held by which test;
// internal/archtest fails when it names one that does not exist.
package attack
