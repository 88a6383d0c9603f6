//go:build linux

package watchdog

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

func TestNext(t *testing.T) {
	const killAt = 100 * time.Second
	for _, test := range []struct {
		name string
		s    sight
		want deed
	}{
		{"no deadline is set", sight{now: 5, agent: true}, deed{until: 5 + SeenWithin}},
		{"far from it", sight{now: 50 * time.Second, agent: true, set: true}, deed{until: 50*time.Second + SeenWithin}},
		{"near it", sight{now: 99 * time.Second, agent: true, set: true}, deed{until: killAt}},
		{"a suspended machine wakes", sight{now: killAt + time.Hour, agent: true, set: true}, deed{kill: true, until: killAt + time.Hour + lookEvery}},
		{"just before", sight{now: killAt - 1, agent: true, set: true}, deed{until: killAt}},
		{"at it", sight{now: killAt, agent: true, set: true}, deed{kill: true, until: killAt + killEvery}},
		{"long after it, with an agent", sight{now: killAt + lateStarts, agent: true, set: true}, deed{kill: true, until: killAt + lateStarts + lookEvery}},
		{"without an agent", sight{now: 5, set: true, runs: true}, deed{until: 5 + lookEvery}},
		{"without an agent, and nothing runs", sight{now: 5, set: true}, deed{until: 5 + lookEvery}},
		{"without an agent, near it", sight{now: killAt - 3, set: true}, deed{until: killAt}},
		{"without an agent, at it", sight{now: killAt, set: true, runs: true}, deed{kill: true, until: killAt + killEvery}},
		{"a start may come late", sight{now: killAt + lateStarts - 1, set: true}, deed{kill: true, until: killAt + lateStarts - 1 + killEvery}},
		{"a start came late", sight{now: killAt + lateStarts, set: true, ranAt: killAt + 1}, deed{kill: true, until: killAt + lateStarts + lookEvery}},
		{"no start comes any more", sight{now: killAt + lateStarts, set: true}, deed{end: true}},
		{"something cannot be killed", sight{now: killAt + time.Hour, set: true, runs: true}, deed{kill: true, until: killAt + time.Hour + lookEvery}},
		{"ended in order, and nothing runs", sight{now: 5, set: true, orderly: true}, deed{end: true}},
		{"ended in order, and something runs", sight{now: 5, set: true, orderly: true, runs: true}, deed{until: 5 + lookEvery}},
		{"ended before there was a session", sight{now: 5}, deed{end: true}},
	} {
		test.s.killAt = killAt
		if got := next(test.s); got != test.want {
			t.Errorf("%s: %+v, want %+v", test.name, got, test.want)
		}
	}
}

func TestPage(t *testing.T) {
	dir := t.TempDir()
	p, err := OpenPage(dir)
	if err != nil {
		t.Fatal(err)
	}
	mem, err := p.view()
	if err != nil {
		t.Fatal(err)
	}
	if _, _, ok := decodePage(mem); ok {
		t.Error("a deadline that was not set")
	}
	for _, at := range []time.Duration{time.Second, time.Hour} {
		if err := p.Set(t.Context(), at, "12345678-1234-1234-1234-123456789abc"); err != nil {
			t.Fatal(err)
		}
		if got, boot, ok := decodePage(mem); got != at || boot != "12345678-1234-1234-1234-123456789abc" || !ok {
			t.Errorf("%s, %q, %t; want %s", got, boot, ok, at)
		}
	}
	if err := p.Close(); err != nil {
		t.Error(err)
	}
	if p, err = OpenPage(dir); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = p.Close() }()
	if got, _, ok := decodePage(mem); got != time.Hour || !ok {
		t.Errorf("opened again, it is %s, %t", got, ok)
	}
	if _, err := p.file.WriteAt([]byte{1}, 9); err != nil {
		t.Fatal(err)
	}
	if _, _, ok := decodePage(mem); ok {
		t.Error("half written, it is read")
	}
}

// TestPageOnADiskThatHangs tests that no call waits longer than its context.
func TestPageOnADiskThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, err := OpenPage(t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = p.Close() }()
		hangs := make(chan struct{})
		for range 2 {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			if err := p.wait(ctx, func() error { <-hangs; return nil }); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%v, want a time-out", err)
			}
			cancel()
		}
		close(hangs)
		if err := p.Check(t.Context()); err != nil {
			t.Errorf("it hangs no more: %v", err)
		}
	})
}
