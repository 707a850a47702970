// Package progress reads how far a run is from what its ranks write, and says when it does not go on as it should.
//
//	a rank's bytes ──Reader──▶ lines ──Pattern──▶ Point ──Judge──▶ Finding   what the user is told, or the run ends by
//	                                                       └──────▶ Curve     what the report keeps
//	                                                       └──────▶ Status    one line, and numbers for metrics
//
// A pattern is a regular expression with named groups (RE2: its time grows with the line's length and nothing else), or the name of one
// that is ready (ready.txt). The groups step and of count; a group rate replaces the rate that is measured; all others are values, such
// as loss. A carriage return ends a line as a line feed does, since bars of tqdm have nothing else.
//
// Follow stands beside the way of output: what it cannot read in time is left out and counted, and delays no line. All else here is
// bytes and times in, sentences out. Only Follow may be used from several goroutines.
package progress
