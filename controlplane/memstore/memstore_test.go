package memstore_test

import (
	"testing"
	"testing/synctest"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/memstore"
	"github.com/escher-sched/escher/controlplane/storetest"
)

func TestConformance(t *testing.T) {
	storetest.Run(t, func(*testing.T) controlplane.Store { return memstore.New() })
}

// TestConformanceShared runs the suite on one store, as it is run on etcd.
func TestConformanceShared(t *testing.T) {
	s := memstore.New()
	storetest.Run(t, func(*testing.T) controlplane.Store { return s })
}

var _ = synctest.Test
