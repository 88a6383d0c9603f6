package etcdstore_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/etcdstore"
	"github.com/escher-sched/escher/controlplane/server/etcdtest"
	"github.com/escher-sched/escher/types"
)

func TestDialFindsTheLimits(t *testing.T) {
	for _, ops := range []int{etcdtest.MaxTxnOps, 200} {
		srv := etcdtest.Start(t, etcdtest.WithMaxTxnOps(uint(ops)))
		s, err := etcdstore.Dial(t.Context(), etcdstore.Config{Endpoints: []string{srv.Endpoint}})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = s.Close() }()
		if got := s.Limits().Ops; got != ops {
			t.Errorf("limit of %d operations, want %d", got, ops)
		}
		if r, err := s.List(t.Context(), controlplane.ListOptions{Prefix: controlplane.Root}); err != nil || len(r.KVs) > 0 || r.Revision != 1 {
			t.Errorf("asking has written: %+v, %v", r, err)
		}
	}
}

func TestDialSaysThatItIsNoEtcd(t *testing.T) {
	fake := &answering{err: status.Error(codes.Unimplemented, "unknown service")}
	_, err := etcdstore.Dial(t.Context(), etcdstore.Config{Endpoints: []string{fake.serve(t)}})
	if !types.Is(err, types.Precondition) || !strings.Contains(err.Error(), "not etcd") {
		t.Errorf("got %v, want Precondition that says so", err)
	}
}

func TestMetricsCount(t *testing.T) {
	srv := etcdtest.Start(t)
	m := etcdstore.NewMetrics()
	s := etcdstore.New(srv.Client, etcdstore.ServerLimits(), etcdstore.WithMetrics(m))
	if _, err := s.Commit(t.Context(), put("a")); err != nil {
		t.Fatal(err)
	}
	if _, err := s.RenewLease(t.Context(), 1); !types.Is(err, types.NotFound) {
		t.Fatal(err)
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(m)
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, f := range families {
		for _, x := range f.GetMetric() {
			if f.GetName() == "escher_store_requests_total" {
				got = append(got, fmt.Sprint(x.GetLabel()[0].GetValue(), " ", x.GetLabel()[1].GetValue(), " ", x.GetCounter().GetValue()))
			}
		}
	}
	if want := []string{"not found renew 1", "ok commit 1"}; !slices.Equal(got, want) {
		t.Errorf("counted %q, want %q", got, want)
	}
}
