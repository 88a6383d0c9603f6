package server

import (
	"strings"
	"testing"

	"github.com/escher-sched/escher/controlplane/etcdstore"
	"github.com/escher-sched/escher/controlplane/server/etcdtest"
)

func TestCheckEtcdAdvises(t *testing.T) {
	srv := etcdtest.Start(t)
	if advice, err := CheckEtcd(t.Context(), srv.Client, etcdstore.ServerLimits(), 0); err != nil || len(advice) > 0 {
		t.Errorf("with large transactions: %q, %v", advice, err)
	}
	advice, err := CheckEtcd(t.Context(), srv.Client, etcdstore.StockLimits(), 0)
	if err != nil || len(advice) != 1 || !strings.Contains(advice[0], "--max-txn-ops=4096") {
		t.Errorf("with small ones: %q, %v", advice, err)
	}
}
