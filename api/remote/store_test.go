package remote_test

import (
	"fmt"
	"net/http/httptest"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/escher-sched/escher/api/client"
	"github.com/escher-sched/escher/api/remote"
	"github.com/escher-sched/escher/api/rest"
	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/memstore"
	"github.com/escher-sched/escher/types"
)

// served returns a store, and what a namespace sees of it by the HTTP API.
func served(t *testing.T, ns string) (controlplane.Store, *remote.Store) {
	t.Helper()
	store := memstore.New()
	server := httptest.NewServer(rest.Handler(rest.Config{Store: store, Now: time.Now}))
	t.Cleanup(server.Close)
	c, err := client.New(client.Config{Server: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	t.Cleanup(server.CloseClientConnections)
	return store, remote.NewStore(c, ns)
}

// put changes keys in one transaction, and returns its revision.
func put(t *testing.T, store controlplane.Store, keys ...string) int64 {
	t.Helper()
	var txn controlplane.Txn
	for _, key := range keys {
		key, deletes := strings.CutPrefix(key, "-")
		txn.Ops = append(txn.Ops, controlplane.Op{Key: key, Value: []byte(key), Delete: deletes})
	}
	res, err := store.Commit(t.Context(), txn)
	if err != nil || !res.Committed {
		t.Fatal(res, err)
	}
	return res.Revision
}

// TestList reads the same as the store itself, in pages, at a revision, and by name: of the namespace alone.
func TestList(t *testing.T) {
	store, far := served(t, "lab")
	var keys []string
	for i := range 25 {
		keys = append(keys, controlplane.TaskKey("lab", fmt.Sprintf("t%02d", i)))
	}
	old := put(t, store, keys...)
	put(t, store, controlplane.TaskKey("lab", "t00"), "-"+controlplane.TaskKey("lab", "t01"), controlplane.TaskKey("web", "x"), controlplane.JobKey("lab", "j"), controlplane.TokenKey("n"))
	prefix := controlplane.Prefix(controlplane.Tasks, "lab")
	for _, opts := range []controlplane.ListOptions{
		{Prefix: prefix}, {Prefix: prefix, Limit: 7}, {Prefix: prefix, Limit: 7, After: keys[9]}, {Prefix: prefix, Revision: old}, {Prefix: prefix, KeysOnly: true},
		{Prefix: prefix + "t1"}, {Prefix: prefix + "none"}, {Key: keys[0]}, {Key: keys[1]}, {Keys: append(slices.Repeat(keys, 3), keys[1])},
		{Prefix: prefix, Limit: 24}, {Prefix: prefix, Limit: 25},
	} {
		want, err := store.List(t.Context(), opts)
		if err != nil {
			t.Fatal(err)
		}
		got, err := far.List(t.Context(), opts)
		if len(want.KVs) == 0 {
			want.KVs, got.KVs = nil, append([]controlplane.KV(nil), got.KVs...)
		}
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%+v: %v\n%+v, want\n%+v", opts, err, got, want)
		}
	}
	all, err := far.List(t.Context(), controlplane.ListOptions{Prefix: controlplane.Root})
	if err != nil || len(all.KVs) != 25 || all.KVs[0].Key != controlplane.JobKey("lab", "j") {
		t.Errorf("%d keys, %v", len(all.KVs), err)
	}
	pools := controlplane.Prefix(controlplane.Allocated) + "*/"
	put(t, store, pools+"lab/slots", pools+"web/slots")
	for _, limit := range []int{0, 1} {
		got, err := far.List(t.Context(), controlplane.ListOptions{Prefix: controlplane.Prefix(controlplane.Allocated), Limit: limit})
		if err != nil || len(got.KVs) != 1 || got.KVs[0].Key != pools+"lab/slots" || got.More {
			t.Errorf("pools: %+v, %v", got, err)
		}
	}
	for _, opts := range []controlplane.ListOptions{
		{Prefix: controlplane.Prefix(controlplane.Tasks, "web")}, {Key: controlplane.TaskKey("web", "x")}, {Key: controlplane.TokenKey("n")}, {Keys: []string{keys[0], controlplane.TokenKey("n")}},
	} {
		if got, err := far.List(t.Context(), opts); !types.Is(err, types.Denied) {
			t.Errorf("%+v: %+v, %v", opts, got, err)
		}
	}
}

// TestWatch follows the changes of the namespace, in order; changes of others only tell progress.
func TestWatch(t *testing.T) {
	store, far := served(t, "lab")
	put(t, store, controlplane.TaskKey("lab", "a"))
	ctx := t.Context()
	for _, prefix := range []string{controlplane.Root, controlplane.Prefix(controlplane.Tasks, "lab")} {
		first := put(t, store, controlplane.TaskKey("lab", "b"), controlplane.TaskKey("web", "b"), controlplane.TokenKey("n"))
		second := put(t, store, "-"+controlplane.TaskKey("lab", "b"))
		batches := far.Watch(ctx, controlplane.WatchOptions{Prefix: prefix, From: first})
		var got []string
		for b := range batches {
			if b.Err != nil {
				t.Fatal(b.Err)
			}
			for _, e := range b.Events {
				got = append(got, fmt.Sprintf("%d %s %t %s", b.Revision-first, e.Key, e.Delete, e.Value))
			}
			if b.Revision >= second {
				break
			}
		}
		if want := []string{"0 /escher/tasks/lab/b false /escher/tasks/lab/b", fmt.Sprintf("%d /escher/tasks/lab/b true ", second-first)}; !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", prefix, got, want)
		}
	}
	began := put(t, store, controlplane.TaskKey("lab", "c"))
	last := put(t, store, controlplane.TaskKey("web", "c"))
	for b := range far.Watch(ctx, controlplane.WatchOptions{Prefix: controlplane.Root, From: began + 1}) {
		if len(b.Events) > 0 || b.Err != nil {
			t.Errorf("another namespace: %+v", b)
		}
		if b.Revision >= last {
			break
		}
	}
	for b := range far.Watch(ctx, controlplane.WatchOptions{Prefix: controlplane.Prefix(controlplane.Tokens), From: 1}) {
		if !types.Is(b.Err, types.Denied) {
			t.Errorf("%+v", b)
		}
	}
}

// TestOnlyReads refuses changes.
func TestOnlyReads(t *testing.T) {
	_, far := served(t, "lab")
	_, commit := far.Commit(t.Context(), controlplane.Txn{})
	_, grant := far.GrantLease(t.Context(), time.Second)
	_, renew := far.RenewLease(t.Context(), 1)
	for _, err := range []error{commit, grant, renew, far.RevokeLease(t.Context(), 1)} {
		if !types.Is(err, types.Precondition) {
			t.Error(err)
		}
	}
	if far.Limits().Ops == 0 {
		t.Error("it has no limits")
	}
}
