package gang

import (
	"testing"
	"time"

	"github.com/escher-sched/escher/esl"
)

// TestLongest: a gang needs its reservation as long as the longest of its members may run, if all have a
// limit. The time is unknown if members run again alone.
func TestLongest(t *testing.T) {
	const s = time.Second
	for name, c := range map[string]struct {
		loss esl.Loss
		runs []time.Duration
		want time.Duration
	}{
		"of equals":             {"", []time.Duration{5 * s, 5 * s}, 5 * s},
		"the longest is first":  {"", []time.Duration{9 * s, 5 * s, 1 * s}, 9 * s},
		"the longest is last":   {"", []time.Duration{1 * s, 5 * s, 9 * s}, 9 * s},
		"the first has none":    {"", []time.Duration{0, 5 * s}, 0},
		"the last has none":     {"", []time.Duration{5 * s, 0}, 0},
		"a single member":       {"", []time.Duration{3 * s}, 3 * s},
		"no member":             {"", nil, 0},
		"all run again":         {esl.Restart, []time.Duration{5 * s, 7 * s}, 7 * s},
		"members run again":     {esl.Alone, []time.Duration{5 * s, 7 * s}, 0},
		"a single, which again": {esl.Alone, []time.Duration{5 * s}, 0},
	} {
		got := Gang{Loss: c.loss}.longest(len(c.runs), func(i int) time.Duration { return c.runs[i] })
		if got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}
