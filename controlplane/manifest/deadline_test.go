package manifest_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/escher-sched/escher/controlplane/manifest"
	"github.com/escher-sched/escher/types"
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
		at, err := manifest.Deadline(text).At(now)
		if want == "" && (err != nil || at <= now.UnixNano() || at > types.MaxMoment) || want != "" && (!types.Is(err, types.Invalid) || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %d, %v", text, at, err)
		}
	}
}

// TestTimesAndAmountsAsJSON checks that a written 0s differs from a wait that was left out.
func TestTimesAndAmountsAsJSON(t *testing.T) {
	var v struct {
		D manifest.Duration
		W manifest.Wait
		A manifest.Amount
	}
	for text, want := range map[string]string{
		`{}`:                                   "0s 1m0s ",
		`{"D": "1h2m", "W": "3s", "A": "4Gi"}`: "1h2m0s 3s 4Gi",
		`{"D": "-1s", "W": "0s", "A": 0.50}`:   "-1s 0s 0.50",
		`{"W": "-1s", "A": 1e3}`:               "0s 0s 1e3",
	} {
		v.D, v.W, v.A = 0, 0, ""
		if err := json.Unmarshal([]byte(text), &v); err != nil {
			t.Errorf("%s: %v", text, err)
		}
		if got := fmt.Sprint(time.Duration(v.D), " ", v.W.Or(time.Minute), " ", v.A); got != want {
			t.Errorf("%s: got %q, want %q", text, got, want)
		}
	}
	for text, says := range map[string]string{
		`{"D": 5}`: "5 is not a duration: write it as text with a unit", `{"D": "5"}`: `"5" is not a duration`, `{"W": 5}`: "5 is not a duration", `{"W": "soon"}`: `"soon" is not`,
		`{"A": true}`: "true is not an amount", `{"A": [1]}`: "[1] is not an amount",
	} {
		if err := json.Unmarshal([]byte(text), &v); !types.Is(err, types.Invalid) || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, want %q", text, err, says)
		}
	}
	for w, want := range map[manifest.Wait]string{manifest.AtOnce: `"0s"`, 0: `"0s"`, manifest.Wait(90 * time.Second): `"1m30s"`} {
		if text, err := json.Marshal(w); err != nil || string(text) != want {
			t.Errorf("%d is %s, %v", w, text, err)
		}
	}
}
