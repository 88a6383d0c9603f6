package place

import (
	"math"
	"testing"
	"time"
)

// TestGain is what Muri calls the interleaving efficiency, times the number of phases.
func TestGain(t *testing.T) {
	s := func(of ...int) (l lengths) {
		for i, x := range of {
			l[i] = time.Duration(x) * time.Second
		}
		return l
	}
	for name, c := range map[string]struct {
		tasks  []lengths
		phases int
		want   float64
	}{
		"one alone":                        {[]lengths{s(1, 2, 3)}, 3, 1},
		"two that complement each other":   {[]lengths{s(1, 2), s(2, 1)}, 2, 2},
		"the same halves":                  {[]lengths{s(1, 1), s(1, 1)}, 2, 2},
		"two that both compute":            {[]lengths{s(1, 9), s(1, 9)}, 2, 20.0 / 18},
		"three of the same thirds":         {[]lengths{s(1, 1, 1), s(1, 1, 1), s(1, 1, 1)}, 3, 3},
		"the better of two orders":         {[]lengths{s(4, 1, 1), s(1, 4, 1), s(1, 1, 4)}, 3, 18.0 / 6},
		"a short one and a long one":       {[]lengths{s(1, 1), s(10, 10)}, 2, 22.0 / 20},
		"one without some of the phases":   {[]lengths{s(0, 5, 0), s(5, 0, 0)}, 3, 2},
		"more tasks than phases":           {[]lengths{s(1, 1), s(1, 1), s(1, 1)}, 2, 0},
		"one of unknown phases":            {[]lengths{{}, s(1, 1, 1)}, 3, 0},
		"four in four, in the order given": {[]lengths{s(1, 0, 0, 0), s(0, 1, 0, 0), s(0, 0, 1, 0), s(0, 0, 0, 1)}, 4, 4},
	} {
		if got := gain(c.tasks, c.phases); math.Abs(got-c.want) > 1e-9 {
			t.Errorf("%s: %g, want %g", name, got, c.want)
		}
	}
}

// TestRotationName is found by tasks from ESCHER_DEVICES.
func TestRotationName(t *testing.T) {
	for device, want := range map[string]string{
		"escher.dev/gpu=node-1-gpu0":                              "turn.node1gpu0.data",
		"nvidia.com/gpu=GPU-5d5ba0d6-1d3a-4f60-8b33-b1bd17ab1a3f": "turn.b1bd17ab1a3f.data",
		"nvidia.com/gpu=0":                                        "turn.0.data",
	} {
		if got := rotationName(device, "data"); got != want {
			t.Errorf("%s: %s, want %s", device, got, want)
		}
	}
}
