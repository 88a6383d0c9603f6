package access

import (
	"errors"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/escher-sched/escher/types"
)

// TestGauges: a subject is bounded in how much it sends, and in how much is open; others are not by it.
func TestGauges(t *testing.T) {
	now := time.Unix(1000, 0)
	g := NewGauges(Use{Rate: 10, Burst: 3, Open: 2}, func() time.Time { return now })
	first, err := g.Enter("user:a")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := g.Enter("user:a"); err != nil {
		t.Fatal(err)
	}
	if _, err := g.Enter("user:a"); !errors.Is(err, ErrTooMany) || !types.Is(err, types.Unavailable) || !strings.Contains(err.Error(), "user:a") {
		t.Errorf("a third one at once: %v", err)
	}
	if _, err := g.Enter("user:b"); err != nil {
		t.Errorf("another subject: %v", err)
	}
	first()
	third, err := g.Enter("user:a")
	if err != nil {
		t.Errorf("after the end of one: %v", err)
	}
	third()
	if _, err := g.Enter("user:a"); !errors.Is(err, ErrTooMany) {
		t.Errorf("a fourth within the second: %v", err)
	}
	now = now.Add(100 * time.Millisecond)
	if err := g.Message("user:a"); err != nil {
		t.Errorf("a tenth of a second later: %v", err)
	}
	if err := g.Message("user:a"); !errors.Is(err, ErrTooMany) {
		t.Errorf("a second message: %v", err)
	}
	for range 3 {
		if err := g.Message("user:c"); err != nil {
			t.Errorf("a message of a new subject: %v", err)
		}
	}
	if err := g.Message("user:c"); !errors.Is(err, ErrTooMany) {
		t.Errorf("more than it may send at once: %v", err)
	}
}

// TestTooManyMessages: the error has the bound that the subject exceeds.
func TestTooManyMessages(t *testing.T) {
	now := time.Unix(1000, 0)
	for want, use := range map[string]Use{"at most 0.5 a second, and 20 at once": {Rate: 0.5, Burst: 20}, "at most 3 a second, and 2 at once": {Rate: 3, Burst: 20, Open: 2}} {
		g := NewGauges(use, func() time.Time { return now })
		var err error
		for range use.Burst + 1 {
			err = g.Message("node:n")
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// TestGaugesAreBounded: the gauges of subjects with nothing open are forgotten when there are too many.
func TestGaugesAreBounded(t *testing.T) {
	g := NewGauges(Use{Rate: 1, Burst: 1, Open: 1}, time.Now)
	leave, err := g.Enter("user:open")
	if err != nil {
		t.Fatal(err)
	}
	for i := range 2 * maxGauges {
		_ = g.Message("user:" + strconv.Itoa(i)) // the first of each
	}
	if n := len(g.gauges); n > maxGauges {
		t.Errorf("%d gauges", n)
	}
	if _, err := g.Enter("user:open"); !errors.Is(err, ErrTooMany) {
		t.Errorf("what is open is forgotten: %v", err)
	}
	leave()
}

// TestOwner: what tokens with bounds own is not that of their subject.
func TestOwner(t *testing.T) {
	seen := make(map[string]bool)
	for _, id := range []Identity{
		{Subject: "user:a"}, {Subject: "user:b"}, {Subject: "user:a", Role: "viewer"}, {Subject: "user:a", Role: "viewer", Namespaces: []string{"lab"}},
		{Subject: "user:a", Namespaces: []string{"lab"}}, {Subject: "user:a", Namespaces: []string{"lab", "team"}},
	} {
		if seen[id.Owner()] {
			t.Errorf("%+v owns what another one does", id)
		}
		seen[id.Owner()] = true
	}
}
