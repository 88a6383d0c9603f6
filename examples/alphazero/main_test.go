package main

import (
	"context"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/escher-sched/escher/examples/alphazero/selfplay"
)

// TestParts runs a predictor, a generator on its node and one on another: each finds it, plays, and
// reports its result.
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

// predictorIn is the directory of the predictor in a child process of this test.
const predictorIn = "TEST_PREDICTOR_IN"

// TestPredictorIsKilled kills a predictor at work, as by kill -9: generators on its node and
// elsewhere end with an error; so does a later one that finds its leftovers.
func TestPredictorIsKilled(t *testing.T) {
	args := func(dir, node string, command ...string) []string {
		return append([]string{"-node", filepath.Join(dir, node), "-shared", filepath.Join(dir, "shared")}, command...)
	}
	if dir := os.Getenv(predictorIn); dir != "" {
		t.Fatal(run(t.Context(), args(dir, "a", "predict", "p")))
	}
	dir := t.TempDir()
	for _, name := range []string{"shared", "a", "b"} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	predictor := exec.Command(os.Args[0], "-test.run", "^TestPredictorIsKilled$")
	predictor.Env = append(os.Environ(), predictorIn+"="+dir)
	if err := predictor.Start(); err != nil {
		t.Fatal(err)
	}
	address, err := await(t.Context(), filepath.Join(dir, "shared", "p"))
	if err != nil {
		t.Fatal(err)
	}
	done, playing := make(chan error, 2), make(chan bool, 2)
	for seat, node := range []string{"a", "b"} {
		go func() {
			p, together, err := selfplay.Find(t.Context(), filepath.Join(dir, node, "p"), seat, string(address))
			if err == nil && together != (node == "a") {
				err = errors.New("it is on the wrong side")
			}
			if err == nil {
				_, err = p.Ask(t.Context())
			}
			playing <- err == nil
			if err == nil {
				err = selfplay.Play(t.Context(), p, rand.New(rand.NewPCG(1, 1)), new(atomic.Int64))
				_ = p.Close()
			}
			done <- err
		}()
	}
	one, other := <-playing, <-playing
	if err := predictor.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := <-done; err == nil || !one || !other {
			t.Errorf("asked: %v and %v, and it ends with %v", one, other, err)
		}
	}
	_ = predictor.Wait() // it was killed
	if err := run(t.Context(), args(dir, "a", "generate", "p", "0")); err == nil || !strings.Contains(err.Error(), "reach the predictor") {
		t.Errorf("one that comes later ends with %v", err)
	}
}

// TestUnknownPart names the parts.
func TestUnknownPart(t *testing.T) {
	if err := run(t.Context(), []string{"judge", "p"}); err == nil || !strings.Contains(err.Error(), "use predict NAME or generate NAME SEAT") {
		t.Errorf("got %v", err)
	}
}

// TestSummary separates those on their predictor's node from the others.
func TestSummary(t *testing.T) {
	together, near, far := summary([]result{{true, 100}, {false, 30}, {true, 200}})
	if together != 2 || near != "150" || far != "30" {
		t.Errorf("got %d, %s and %s", together, near, far)
	}
	if _, _, far := summary([]result{{true, 100}}); far != "-" {
		t.Errorf("no player is on another node, and plays %s", far)
	}
}
