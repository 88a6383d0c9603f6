package esl_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/memstore"
	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/esl/builtin"
	"github.com/escher-sched/escher/esl/gang"
	"github.com/escher-sched/escher/types"
)

// hung is a store that answers no listing.
type hung struct {
	*memstore.Store
	asked chan struct{}
}

func (s *hung) List(ctx context.Context, _ controlplane.ListOptions) (controlplane.Page, error) {
	s.asked <- struct{}{}
	<-ctx.Done()
	return controlplane.Page{}, types.Errorf(types.Unavailable, "list: %w", ctx.Err())
}

// TestCanceledSubmitWaitsForNoOther cancels a Submit while another one of the same client waits for
// the store: it returns.
func TestCanceledSubmitWaitsForNoOther(t *testing.T) {
	store := &hung{Store: memstore.New(), asked: make(chan struct{}, 2)}
	c, err := controlplane.New(store, "a")
	if err != nil {
		t.Fatal(err)
	}
	jobs := builtin.New(c)
	submit := func(ctx context.Context) error {
		_, err := jobs.Submit(ctx, controlplane.Job{Tasks: esl.Copies(2, controlplane.Submission{Spec: &types.Spec{Image: "x"}})}, gang.Gang{})
		return err
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	first, second := make(chan error, 1), make(chan error, 1)
	go func() { first <- submit(ctx) }()
	<-store.asked
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	go func() { second <- submit(canceled) }()
	select {
	case err := <-second:
		if err == nil {
			t.Error("a canceled submit succeeded")
		}
	case <-time.After(2 * time.Minute):
		t.Error("it waits for the other one")
	}
	stop()
	if err := <-first; !errors.Is(err, context.Canceled) {
		t.Logf("the other one ended with %v", err)
	}
}
