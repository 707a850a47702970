package archtest

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"
)

// The loop's queue takes what a script can play, and no function.
func TestTheMailboxHoldsEvents(t *testing.T) {
	field := regexp.MustCompile(`items +\[\]run\.Event\b`)
	text, err := os.ReadFile(filepath.Join("..", "..", "launcher", "driver.go"))
	if err != nil {
		t.Fatal(err)
	}
	if !field.Match(text) || field.MatchString("	items []any") {
		t.Error("launcher.mailbox has items of another type than run.Event: what came could not be played again")
	}
}
