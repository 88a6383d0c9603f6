package types

import (
	"strings"
	"testing"
	"time"
)

// TestDeadlineIsAMoment checks that a time which nanoseconds cannot count is refused, and does not
// become another one.
func TestDeadlineIsAMoment(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for text, want := range map[string]string{
		"2026-06-01T00:00:00Z": "", "2149-12-31T00:00:00Z": "", "2h": "", "876000h": "",
		"2150-01-02T00:00:00Z": "is after the year 2150", "2615-01-01T00:00:00Z": "is after the year 2150", "3200-01-01T00:00:00Z": "is after the year 2150",
		"9999-12-31T23:59:59Z": "is after the year 2150", "2000000h": "is after the year 2150",
		"1969-12-31T00:00:00Z": "has passed", "0001-01-01T00:00:00Z": "has passed", "-1h": "has passed", "0s": "has passed", "soon": "neither a time nor a duration",
	} {
		at, err := Deadline(text).At(now)
		if want == "" && (err != nil || at <= now.UnixNano() || at > MaxMoment) || want != "" && (!Is(err, Invalid) || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %d, %v", text, at, err)
		}
	}
}

// TestTokenIsAHeader checks that the token of a node can be sent to it.
func TestTokenIsAHeader(t *testing.T) {
	for text, valid := range map[string]bool{"": true, "aB3-_=./+": true, "a b": false, "a\n": false, "\x00": false, "\x7f": false, "é": false} {
		if err := (&Token{Token: text}).Validate(); (err == nil) != valid {
			t.Errorf("%q: %v", text, err)
		}
	}
}
