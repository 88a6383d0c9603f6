package identity_test

import (
	"testing"

	"github.com/escher-sched/escher/controlplane/identity"
	"github.com/escher-sched/escher/controlplane/memstore"
	"github.com/escher-sched/escher/types"
)

func TestClusterIDIsMadeOnce(t *testing.T) {
	s := memstore.New()
	if _, err := identity.ClusterID(t.Context(), s); !types.Is(err, types.NotFound) {
		t.Errorf("before there is one: %v, want NotFound", err)
	}
	first, err := identity.MakeClusterID(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	again, err := identity.MakeClusterID(t.Context(), s)
	if err != nil || again != first {
		t.Errorf("made %q, then %q, %v", first, again, err)
	}
}
