package gateway

import (
	"context"
	"errors"
	"testing"
)

// TestUntilOne: a call ends with its context, though all of its parts wait for a client that reads nothing,
// and with the first of its parts.
func TestUntilOne(t *testing.T) {
	gone := make(chan struct{})
	defer close(gone)
	waits := func(context.Context) error {
		<-gone
		return nil
	}
	revoked, first := errors.New("revoked"), errors.New("the first")
	ctx, revoke := context.WithCancelCause(t.Context())
	ended := make(chan error)
	go func() { ended <- untilOne(ctx, waits, waits) }()
	revoke(revoked)
	if err := <-ended; !errors.Is(err, revoked) {
		t.Error(err)
	}
	if err := untilOne(t.Context(), waits, func(context.Context) error { return first }, waits); !errors.Is(err, first) {
		t.Error(err)
	}
	if err := untilOne(t.Context(), waits, func(context.Context) error { panic("a part") }); err == nil {
		t.Error("a panic of a part is no error")
	}
}
