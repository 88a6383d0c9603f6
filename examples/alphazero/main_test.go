package main

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestParts runs a predictor, a generator on its node and one on another: each finds it,
// plays, and says how.
func TestParts(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"shared", "a", "b"} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	on := func(ctx context.Context, node string, command ...string) chan error {
		done := make(chan error, 1)
		go func() {
			done <- run(ctx, append([]string{"-node", filepath.Join(dir, node), "-shared", filepath.Join(dir, "shared")}, command...))
		}()
		return done
	}
	ctx, stop := context.WithCancel(t.Context())
	together, apart := on(t.Context(), "a", "generate", "p", "0"), on(t.Context(), "b", "generate", "p", "1")
	predictor := on(ctx, "a", "predict", "p")
	for _, done := range []chan error{together, apart} {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	stop()
	if err := <-predictor; err != nil {
		t.Error(err)
	}
	for seat, want := range map[string]bool{"0": true, "1": false} {
		text, err := os.ReadFile(filepath.Join(dir, "shared", "p-"+seat))
		if err != nil {
			t.Fatal(err)
		}
		var r result
		if err := json.Unmarshal(text, &r); err != nil || r.Together != want || r.Rate <= 0 {
			t.Errorf("generator %s says %s (%v)", seat, text, err)
		}
	}
}

// TestUnknownPart says what there is.
func TestUnknownPart(t *testing.T) {
	if err := run(t.Context(), []string{"judge", "p"}); err == nil || !strings.Contains(err.Error(), "use predict NAME or generate NAME SEAT") {
		t.Errorf("got %v", err)
	}
}

// TestSummary takes those apart that are beside their predictor.
func TestSummary(t *testing.T) {
	together, near, far := summary([]result{{true, 100}, {false, 30}, {true, 200}})
	if together != 2 || near != "150" || far != "30" {
		t.Errorf("got %d, %s and %s", together, near, far)
	}
	if _, _, far := summary([]result{{true, 100}}); far != "-" {
		t.Errorf("nobody is elsewhere, and plays %s", far)
	}
}
