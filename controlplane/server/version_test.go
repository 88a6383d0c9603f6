package server

import (
	"strings"
	"testing"

	"github.com/escher-sched/escher/controlplane/etcdstore"
	"github.com/escher-sched/escher/controlplane/server/etcdtest"
	"github.com/escher-sched/escher/types"
)

func TestCheckEtcdAdvises(t *testing.T) {
	srv := etcdtest.Start(t)
	if advice, err := CheckEtcd(t.Context(), srv.Client, etcdstore.ServerLimits(), 0); err != nil || len(advice) > 0 {
		t.Errorf("with large transactions: %q, %v", advice, err)
	}
	advice, err := CheckEtcd(t.Context(), srv.Client, etcdstore.StockLimits(), 0)
	if err != nil || len(advice) != 1 || !strings.Contains(advice[0].String(), "--max-txn-ops=4096") {
		t.Errorf("with small ones: %q, %v", advice, err)
	}
}

// TestCheckMember checks which etcd is refused: one that does not report its quota, unless it is
// given.
func TestCheckMember(t *testing.T) {
	large := etcdstore.ServerLimits()
	for _, x := range []struct {
		version     string
		told, quota int64
		refused     string
		advice      string
	}{
		{version: "3.7.1", told: 2 << 30},
		{version: "3.6.0", told: 2 << 30, quota: 2 << 30},
		{version: "3.6.0", told: 2 << 30, quota: 8 << 30, advice: "etcd-quota has no effect: leave it out"},
		{version: "3.5.21", refused: "it is version 3.5.21, which does not report the quota of its database: give etcd-quota"},
		{version: "3.5.21", quota: 8 << 30},
		{version: "3.4.0", quota: 8 << 30},
		{version: "3.3.27", quota: 8 << 30, refused: "use 3.4.0 or later"},
		{version: "", quota: 8 << 30, refused: "use 3.4.0 or later"},
	} {
		advice, err := checkMember("e", x.version, x.told, large, x.quota)
		if (x.refused == "") != (err == nil) || err != nil && (!types.Is(err, types.Precondition) || !strings.Contains(err.Error(), x.refused)) {
			t.Errorf("%+v: %v", x, err)
		}
		text := ""
		for _, a := range advice {
			text += a.String()
		}
		if (x.advice == "") != (text == "") || !strings.Contains(text, x.advice) {
			t.Errorf("%+v: %q", x, text)
		}
	}
}
