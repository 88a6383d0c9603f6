package etcdtest_test

import (
	"errors"
	"strings"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/server"
	"github.com/escher-sched/escher/controlplane/server/etcdtest"
)

// TestDefragmentMembers fills an etcd of three members. All their files are rewritten, the leader
// hands over before its own is, and the etcd takes writes again. It is here as etcd's members
// leave goroutines behind when they end.
func TestDefragmentMembers(t *testing.T) {
	members := etcdtest.StartMembers(t, 3, etcdtest.WithQuota(8<<20))
	var endpoints []string
	for _, s := range members {
		endpoints = append(endpoints, s.Endpoint)
	}
	client := etcdtest.Connect(t, endpoints...)
	value := strings.Repeat("x", 1<<20)
	for i := 0; ; i++ {
		_, err := client.Put(t.Context(), "key", value)
		if err != nil && strings.Contains(err.Error(), "space") {
			break
		}
		if err != nil || i > 100 {
			t.Fatalf("put %d: %v", i, err)
		}
	}
	m := server.NewMaintenance(client, 0)
	u, err := m.Usage(t.Context())
	if err != nil || !u.Alarm {
		t.Fatalf("Usage = %+v, %v; it is to be full", u, err)
	}
	if err := m.Compact(t.Context(), u.Revision); err != nil {
		t.Fatal(err)
	}
	leader := statusOf(t, client, endpoints[0]).Leader
	err = m.Defragment(t.Context())
	for _, endpoint := range endpoints {
		if st := statusOf(t, client, endpoint); st.Leader == leader {
			t.Errorf("%s says that %x leads, whose file was rewritten meanwhile", endpoint, leader)
		}
	}
	// Each member removes the old revisions on its own, possibly after its file was rewritten. The
	// collector tries again, too.
	for range 20 {
		if !errors.Is(err, controlplane.ErrFull) {
			break
		}
		err = m.Defragment(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, endpoint := range endpoints {
		// A file that is rewritten before its member has removed all old revisions keeps some of them.
		if st := statusOf(t, client, endpoint); st.DbSize >= 8<<20*85/100 {
			t.Errorf("the file of %s has %d bytes", endpoint, st.DbSize)
		}
	}
	if _, err := client.Put(t.Context(), "key", value); err != nil {
		t.Errorf("put: %v", err)
	}
}

func statusOf(t *testing.T, client *clientv3.Client, endpoint string) *clientv3.StatusResponse {
	t.Helper()
	st, err := client.Status(t.Context(), endpoint)
	if err != nil {
		t.Fatal(err)
	}
	return st
}
