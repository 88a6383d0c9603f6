package selfplay

import (
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
)

// served runs a predictor until the test ends, and returns its table and address.
func served(t *testing.T, seats int) (path, address string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	path = filepath.Join(t.TempDir(), "predictor")
	s, err := NewServer(path, seats, listener)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("what it leaves behind: %v", err)
		}
	})
	return path, listener.Addr().String()
}

// TestAsk lets generators ask by shared memory and over TCP, all at a time: each gets the answer to
// its own position, either way.
func TestAsk(t *testing.T) {
	const seats, times = 2, 50
	path, address := served(t, seats)
	type way struct {
		path     string
		seat     int
		together bool
	}
	done := make(chan error, 4)
	ways := []way{{path, 0, true}, {path, 1, true}, {path + "-elsewhere", 0, false}, {path + "-elsewhere", 1, false}}
	for i, w := range ways {
		go func() {
			done <- func() error {
				p, together, err := Find(t.Context(), w.path, w.seat, address)
				if err != nil {
					return err
				}
				if together != w.together {
					return errors.New("it is on the wrong side")
				}
				random := rand.New(rand.NewPCG(uint64(i), 0))
				for range times {
					p.Board().Deal(random)
					want := new(Answer)
					Predict(p.Board(), want)
					if got, err := p.Ask(t.Context()); err != nil || *got != *want {
						return errors.Join(err, errors.New("the answer is of something else"))
					}
				}
				return p.Close()
			}()
		}()
	}
	for range ways {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

// TestPlay plays until ctx ends, either way.
func TestPlay(t *testing.T) {
	path, address := served(t, 1)
	for _, at := range []string{path, path + "-elsewhere"} {
		p, _, err := Find(t.Context(), at, 0, address)
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		var played atomic.Int64
		done := make(chan error, 1)
		go func() { done <- Play(ctx, p, rand.New(rand.NewPCG(1, 2)), &played) }()
		for played.Load() < 100 {
			select {
			case err := <-done:
				t.Fatalf("it ends with %v", err)
			default:
			}
		}
		stop()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("it ends with %v", err)
		}
		_ = p.Close() // over TCP it has been closed
	}
}

// TestFindRefuses: there are no more seats than were made.
func TestFindRefuses(t *testing.T) {
	path, address := served(t, 1)
	if _, _, err := Find(t.Context(), path, 1, address); err == nil || !strings.Contains(err.Error(), "seat 1") {
		t.Errorf("got %v", err)
	}
}

// TestBest: the answer has the move with the highest weight, and a value.
func TestBest(t *testing.T) {
	b, a := new(Board), new(Answer)
	b[42] = 1
	if Predict(b, a); a.Best() != 42 || a[Moves] <= 0 || a[Moves] >= 1 {
		t.Errorf("best is %d, the value %g", a.Best(), a[Moves])
	}
}
