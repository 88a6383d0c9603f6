package execution_test

import (
	"bytes"
	"testing"

	"github.com/escher-sched/escher/types"
	"github.com/escher-sched/escher/types/execution"
)

// FuzzScan reads any bytes as a log of executions: every record survives, and every invalid line is
// counted.
func FuzzScan(f *testing.F) {
	line := execution.AppendLine(nil, &execution.Record{Event: execution.Start, Container: "a-1-x", Node: "n1", Namespace: "d", Task: "a", Attempt: 1, Reason: "r"})
	f.Add(line)
	f.Add(append(bytes.Clone(line), line[:len(line)/2]...))
	f.Add(bytes.Repeat([]byte("x"), 70<<10))
	f.Add([]byte("00000000 {}\n\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		lines := bytes.Count(text, []byte("\n")) + 1
		records := 0
		bad, err := execution.Scan(bytes.NewReader(text), func(r execution.Record) {
			records++
			again := 0
			if _, err := execution.Scan(bytes.NewReader(execution.AppendLine(nil, &r)), func(x execution.Record) {
				r.Reason = types.CutReason(r.Reason)
				if again++; x != r {
					t.Errorf("got %+v, want %+v", x, r)
				}
			}); err != nil || again != 1 {
				t.Errorf("%+v comes back %d times, %v", r, again, err)
			}
		})
		if err != nil || bad+records > lines {
			t.Errorf("%d bad lines and %d records of %d lines, %v", bad, records, lines, err)
		}
	})
}
