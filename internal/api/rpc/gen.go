// Package rpc is the service of agents as gRPC has it, generated from agent.proto. What is said there is internal/api/v1's.
package rpc

//go:generate sh ../v1/gen.sh
