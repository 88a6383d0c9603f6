package types

import (
	"strings"
	"testing"
)

// TestHistoryIsValidated refuses what no server writes.
func TestHistoryIsValidated(t *testing.T) {
	for problem, h := range map[string]History{
		"":        {Runs: 1, At: 5, Through: 3, Memory: Histogram{{0, 1}, {7, WholeRun}, {maxBuckets - 1, 1}}},
		"runs":    {Runs: -1},
		"at":      {At: -1},
		"through": {Through: -1},
		"index":   {CPU: Histogram{{3, 1}, {3, 1}}},
		"weight":  {Length: Histogram{{3, 0}}},
		"buckets": {Length: make(Histogram, maxBuckets+1)},
	} {
		err := h.Validate()
		if (problem == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), problem) {
			t.Errorf("%s: %v", problem, err)
		}
	}
}
