package logs

import (
	"fmt"
	"strings"
	"testing"
)

// Of lines of very many processes a bounded part is remembered.
func TestTellerIsBounded(t *testing.T) {
	var of Teller
	for i := range 3 * maxLanes {
		if told := of.Tell([]byte(fmt.Sprintf("[1,%d]<stderr>:INFO x", i))); told.Rank != i || told.Stream != "stderr" || told.Level != Info || told.Text != "INFO x" {
			t.Fatalf("%+v", told)
		}
	}
	if len(of.lanes) > maxLanes+1 {
		t.Errorf("%d processes are remembered", len(of.lanes))
	}
	if told := of.Tell([]byte(strings.Repeat("x", 2*MaxLine))); len(told.Text) != MaxLine {
		t.Errorf("%d bytes of a line are looked at", len(told.Text))
	}
}
