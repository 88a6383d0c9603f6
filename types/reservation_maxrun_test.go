package types

import (
	"strings"
	"testing"
	"time"
)

// TestReservationMaxRun: how long a reservation is needed is kept in the store, and is within the limits of
// other times; 0 means unknown.
func TestReservationMaxRun(t *testing.T) {
	bundles := []Bundle{{Requests: Requests{{"cpu", 1000}}}}
	for d, want := range map[time.Duration]string{
		0:               "",
		1:               "",
		time.Hour:       "",
		MaxDuration:     "",
		-1:              "maxRun: -1ns is negative",
		MaxDuration + 1: "maxRun: " + (MaxDuration + 1).String() + " is too long",
	} {
		r := &Reservation{Bundles: bundles, MaxRun: d}
		err := r.Validate()
		if want == "" && err != nil || want != "" && (!Is(err, Invalid) || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", d, err, want)
		}
		if want != "" {
			continue
		}
		var back Reservation
		if err := Decode(Encode(1, r), &back); err != nil || back.MaxRun != d {
			t.Errorf("%s: it comes back as %s, %v", d, back.MaxRun, err)
		}
	}
}
