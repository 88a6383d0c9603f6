package controlplane_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/memstore"
	"github.com/escher-sched/escher/types"
)

func TestSessionLastsWhileItRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		s, err := w.OpenSession(t.Context(), "tuner", 15*time.Second)
		if err != nil {
			t.Fatal(err)
		}
		key := controlplane.SessionKey("team", s.ID)
		var stored types.Session
		if !w.get(key, &stored) || stored.Name != "tuner" || !strings.HasPrefix(s.ID, "tuner-") {
			t.Errorf("%s: %+v", s.ID, stored)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- s.Run(ctx) }()
		time.Sleep(time.Hour)
		if !w.has1(key) {
			t.Error("it ended while it ran")
		}
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		time.Sleep(16 * time.Second)
		if w.has1(key) {
			t.Error("it goes on after its time")
		}
	})
}

func TestSessionIsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &renewing{Store: memstore.New()}
		c, err := controlplane.New(store, "team")
		if err != nil {
			t.Fatal(err)
		}
		s, err := c.OpenSession(t.Context(), "tuner", 15*time.Second)
		if err != nil {
			t.Fatal(err)
		}
		// A short interruption does no harm; a long one ends the session in time.
		ended := make(chan error, 1)
		go func() { ended <- s.Run(t.Context()) }()
		time.Sleep(6 * time.Second)
		store.fail(types.Errorf(types.Unavailable, "injected"))
		time.Sleep(9 * time.Second)
		store.fail(nil)
		time.Sleep(time.Minute)
		store.fail(types.Errorf(types.Unavailable, "injected"))
		begun := time.Now()
		if err := <-ended; !types.Is(err, types.Precondition) || time.Since(begun) > 15*time.Second {
			t.Errorf("got %v after %s", err, time.Since(begun))
		}
		store.fail(nil)
		s, err = c.OpenSession(t.Context(), "tuner", 15*time.Second)
		if err != nil {
			t.Fatal(err)
		}
		go func() { ended <- s.Run(t.Context()) }()
		if err := s.Close(t.Context()); err != nil {
			t.Error(err)
		}
		if err := <-ended; !types.Is(err, types.Precondition) || !strings.Contains(err.Error(), "open another") {
			t.Errorf("got %v", err)
		}
		if err := s.Close(t.Context()); err != nil {
			t.Errorf("closed again: %v", err)
		}
	})
}

// renewing is a store with renewals that can fail.
type renewing struct {
	*memstore.Store
	err atomic.Pointer[error]
}

func (r *renewing) fail(err error) {
	synctest.Wait()
	r.err.Store(&err)
}

func (r *renewing) RenewLease(ctx context.Context, id controlplane.LeaseID) (time.Duration, error) {
	if err := r.err.Load(); err != nil && *err != nil {
		return 0, *err
	}
	return r.Store.RenewLease(ctx, id)
}

func TestOpenSessionRefuses(t *testing.T) {
	w := newWorld(t)
	w.refused(types.Invalid, func() error {
		_, err := w.OpenSession(t.Context(), "a b", time.Millisecond)
		return err
	}, "name: ", "ttl: 1ms is too short", "1s or more")
}

func TestOpenSessionNotAnswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.lossy.next(late, lost)
		s, err := w.OpenSession(t.Context(), "tuner", 15*time.Second)
		if err != nil || !w.has1(controlplane.SessionKey("team", s.ID)) {
			t.Errorf("%v, %v", s, err)
		}
	})
}
