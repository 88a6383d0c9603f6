package controlplane_test

import (
	"strings"
	"testing"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/memstore"
	"github.com/escher-sched/escher/types"
)

// TestHoldRefusesInvalidMessages requests a role under a name that is too long.
func TestHoldRefusesInvalidMessages(t *testing.T) {
	s := memstore.New()
	err := controlplane.Hold(t.Context(), s, controlplane.LeaderKey("x"), &types.Leader{Holder: strings.Repeat("x", 2<<20)}, time.Second, nil)
	if !types.Is(err, types.Invalid) || !strings.Contains(err.Error(), "hold /escher/leaders/x: holder: ") {
		t.Errorf("got %v, want Invalid", err)
	}
	if page, err := s.List(t.Context(), controlplane.ListOptions{Key: controlplane.LeaderKey("x")}); err != nil || len(page.KVs) > 0 {
		t.Errorf("there is %+v, %v", page.KVs, err)
	}
}
