// Package bfrops is the data encoding of PMIx ("buffer operations"), in the dialects that
// libpmix 2.1 to 7 can be asked to speak: v21 and v3 (fixed width), v4 and v41 (varints).
//
// A payload is a sequence of packed groups; a group is a count and so many values of one type:
//
//	            ┌───────┬───────┬─ ─ ─┐            ┌────────────┬───────┬───────────┬───────┬─ ─ ─┐
//	NON_DESC    │ count │ value │ …   │ FULLY_DESC │ tag(INT32) │ count │ tag(type) │ value │ …   │
//	            └───────┴───────┴─ ─ ─┘            └────────────┴───────┴───────────┴───────┴─ ─ ─┘
//
// Tags within values (of VALUE, INFO, KVAL, DATA_ARRAY …) are there in both.
//
//	           16/32/64-bit integers, counts, lengths, tags    SIZE, INT, UINT
//	fixed      big endian, natural width                       behind a tag
//	flex       base 128, low group first, at most 9 bytes,     without a tag;
//	           signed ones zig-zag                             INT and UINT signed
//
// Source: openpmix src/mca/bfrops (v3.2.5, v4.2.9, v5.0.7, v6.0.0) and frames of real clients.
//
// In Go, a value of a PMIx type is: bool (BOOL), int64 (signed integers, STATUS), uint64
// (unsigned ones, one-byte kinds, ranks), float64, string or nil (STRING; nil is C's NULL),
// []byte (BYTE_OBJECT and what is compressed), nil (UNDEF, POINTER), and the structs of
// values.go.
//
// PURE: everything here is a function of its input, bounded: a Reader refuses counts that the
// rest of the message cannot hold, nesting deeper than 16 and more than 2^18 values.
// A Reader or Writer is for one goroutine.
//
// Types that need libpmix's knowledge of fabrics (COORD, GEOMETRY, TOPO …) are refused: no MPI
// library sends them.
package bfrops
