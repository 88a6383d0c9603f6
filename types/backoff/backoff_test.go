package backoff

import (
	"testing"
	"time"

	"github.com/escher-sched/escher/types"
)

func TestDelay(t *testing.T) {
	for _, test := range []struct {
		failures int
		ran      time.Duration
		want     time.Duration
	}{
		{0, 0, time.Second}, {1, 0, time.Second}, {2, time.Minute, 2 * time.Second}, {3, 0, 4 * time.Second},
		{9, 0, 256 * time.Second}, {10, 0, 5 * time.Minute}, {1 << 40, 0, 5 * time.Minute},
		{9, 10 * time.Minute, time.Second}, {9, -time.Hour, 256 * time.Second},
	} {
		if got := Delay(test.failures, test.ran); got != test.want {
			t.Errorf("after %d failures and a last run of %s: %s, want %s", test.failures, test.ran, got, test.want)
		}
	}
}

// TestNext: what a spec says of the waits counts before the defaults.
func TestNext(t *testing.T) {
	for _, test := range []struct {
		restart         types.Restart
		last, ran, want time.Duration
	}{
		{types.Restart{}, 0, 0, time.Second},
		{types.Restart{}, time.Second, time.Minute, 2 * time.Second},
		{types.Restart{}, 4 * time.Minute, 0, 5 * time.Minute},
		{types.Restart{}, 4 * time.Minute, 10 * time.Minute, time.Second},
		{types.Restart{Delay: 4 * time.Second}, 0, 0, 4 * time.Second},
		{types.Restart{Delay: 4 * time.Second}, 5 * time.Minute, time.Hour, 4 * time.Second},
		{types.Restart{Delay: time.Hour}, 0, 0, time.Hour},
		{types.Restart{Delay: time.Hour}, time.Hour, 0, time.Hour},
		{types.Restart{MaxDelay: 10 * time.Second}, 8 * time.Second, 0, 10 * time.Second},
		{types.Restart{Delay: time.Minute, MaxDelay: 10 * time.Second}, 0, 0, 10 * time.Second},
	} {
		if got := Next(&test.restart, test.last, test.ran); got != test.want {
			t.Errorf("%+v, after a wait of %s and a run of %s: %s, want %s", test.restart, test.last, test.ran, got, test.want)
		}
	}
}
