package rig

import (
	"context"
	"io"
	"net/http"

	"github.com/escher-sched/escher/types"
)

// Get reads an answer of a server, which must be 200.
func Get(ctx context.Context, web *http.Client, url string) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return types.Errorf(types.Internal, "ask: %w", err)
	}
	answer, err := web.Do(r)
	if err != nil {
		return types.Errorf(types.Unavailable, "ask: %w", err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil || answer.StatusCode != http.StatusOK {
		return types.Errorf(types.Unavailable, "%s: %s: %s: %w", url, answer.Status, types.Cut(string(text), 300), err)
	}
	return nil
}
