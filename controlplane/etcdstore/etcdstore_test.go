package etcdstore_test

import (
	"testing"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/etcdstore"
	"github.com/escher-sched/escher/controlplane/server/etcdtest"
	"github.com/escher-sched/escher/controlplane/storetest"
)

func TestConformance(t *testing.T) {
	srv := etcdtest.Start(t)
	s := etcdstore.New(srv.Client, etcdstore.ServerLimits(), etcdstore.WithProgressInterval(50*time.Millisecond))
	storetest.Run(t, func(*testing.T) controlplane.Store { return s })
}
