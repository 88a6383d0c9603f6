package execution_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/escher-sched/escher/types/execution"
)

// TestOverlongLine checks that an invalid line of any length does not hide the others.
func TestOverlongLine(t *testing.T) {
	a, b := execution.Record{Container: "a"}, execution.Record{Container: "b", Reason: strings.Repeat("é", 100<<10)}
	log := execution.AppendLine(nil, &a)
	log = append(log, bytes.Repeat([]byte("x"), 200<<10)...)
	log = append(log, "\n\n"...)
	log = execution.AppendLine(log, &b)
	log = append(log, "half a li"...)
	var got []execution.Record
	bad, err := execution.Scan(bytes.NewReader(log), func(r execution.Record) { got = append(got, r) })
	if err != nil || bad != 2 || len(got) != 2 || got[0].Container != "a" || got[1].Container != "b" {
		t.Fatalf("%d records, %d bad lines, %v", len(got), bad, err)
	}
	if reason := got[1].Reason; len(reason) > 1<<11 || !strings.HasSuffix(reason, "é…") {
		t.Errorf("a reason of %d bytes", len(reason))
	}
}
