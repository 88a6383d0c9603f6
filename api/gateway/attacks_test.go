package gateway_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/escher-sched/escher/api/access"
	"github.com/escher-sched/escher/api/gateway"
	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/etcdstore"
	"github.com/escher-sched/escher/types"
	"github.com/escher-sched/escher/types/rights"
)

// TestNothingShowsThrough: neither pages, nor orders, counts and revisions tell of hidden keys.
func TestNothingShowsThrough(t *testing.T) {
	w := tenants(t)
	w.put(map[string]types.Message{
		controlplane.StatusKey("b", "u"): &types.Status{Phase: types.Pending}, controlplane.StatusKey("b", "v"): &types.Status{Phase: types.Pending},
		controlplane.StatusKey("a", "u"): &types.Status{Phase: types.Pending}, controlplane.StatusKey("c", "t"): &types.Status{Phase: types.Pending},
	})
	alice, _ := w.as("user:alice")
	ctx, statuses := t.Context(), controlplane.Prefix(controlplane.Statuses)
	for limit, more := range map[int]bool{1: true, 2: false, 3: false, 4: false} {
		page, err := alice.List(ctx, controlplane.ListOptions{Prefix: statuses, Limit: limit})
		if err != nil || page.More != more || len(page.KVs) != min(limit, 2) {
			t.Errorf("limit %d: %d keys, more %t, %v", limit, len(page.KVs), page.More, err)
		}
	}
	c := alice.Client()
	prefix := clientv3.WithPrefix()
	sorted := clientv3.WithSort(clientv3.SortByValue, clientv3.SortDescend)
	for name, options := range map[string][]clientv3.OpOption{
		"sorted": {prefix, sorted}, "counted": {prefix, clientv3.WithCountOnly()}, "since": {prefix, clientv3.WithMinModRev(3)}, "made since": {prefix, clientv3.WithMinCreateRev(3)},
		"until": {prefix, clientv3.WithMaxModRev(3)},
	} {
		if _, err := c.Get(ctx, statuses, options...); err == nil {
			t.Errorf("%s: it is read", name)
		}
		if _, err := c.Txn(ctx).Then(clientv3.OpGet(statuses, options...)).Commit(); err == nil {
			t.Errorf("%s: it is read in a transaction", name)
		}
	}
	if _, err := c.Txn(ctx).Then(clientv3.OpGet(statuses, prefix, clientv3.WithLimit(1))).Commit(); err == nil {
		t.Error("a page in a transaction")
	}
	if stream, err := pb.NewKVClient(c.ActiveConnection()).RangeStream(ctx, &pb.RangeRequest{Key: []byte(statuses), RangeEnd: []byte(etcdstore.PrefixEnd(statuses)), Limit: 1}); err == nil {
		if _, err := stream.Recv(); err == nil {
			t.Error("a limited stream")
		}
	}
	if _, err := c.Get(ctx, controlplane.Prefix(controlplane.Alive), prefix, sorted); err == nil {
		t.Error("values that lose something are sorted")
	}
	if _, err := c.Get(ctx, "/escher/status/a/"+strings.Repeat("x", 600)); err == nil {
		t.Error("a long key")
	}
}

// TestAdmission: new work needs room in the cluster and in its namespace, whatever its program compares.
func TestAdmission(t *testing.T) {
	w := tenants(t)
	w.put(map[string]types.Message{controlplane.NamespaceKey("a"): &types.Namespace{Budget: &types.Budget{Priority: &types.Ceiling{Max: 100}}}})
	alice, _ := w.as("user:alice")
	revision := func(key string) int64 {
		kv, err := controlplane.Get(t.Context(), w.direct, key)
		if err != nil {
			t.Fatal(err)
		}
		return kv.ModRevision
	}
	launch := func(id string, priority int) error {
		task := types.Task{Name: "t", Submitted: 1, Priority: priority, Requests: types.NewRequests(map[string]types.Quantity{"cpu": 1000})}
		txn := controlplane.Txn{Ops: []controlplane.Op{{Key: controlplane.TaskKey("a", id), Value: types.Encode(1, &task)}}}
		for _, key := range []string{controlplane.TaskKey("a", id), controlplane.AdmissionKey(), controlplane.NamespaceAdmissionKey("a"), controlplane.NamespaceKey("a")} {
			txn.Compares = append(txn.Compares, controlplane.Compare{Key: key, Revision: revision(key)})
		}
		_, err := alice.Commit(t.Context(), txn)
		return err
	}
	if err := launch("one", 100); err != nil {
		t.Fatal(err)
	}
	if err := launch("high", 101); err == nil || !strings.Contains(err.Error(), "101 is above 100") {
		t.Errorf("above the highest priority: %v", err)
	}
	w.put(map[string]types.Message{controlplane.AdmissionKey(): &types.Admission{Reason: "slow down", Busy: true}})
	if err := launch("two", 0); err != nil {
		t.Errorf("while submission is slowed: %v", err)
	}
	w.put(map[string]types.Message{controlplane.AdmissionKey(): &types.Admission{Reason: "the disk is full"}})
	if err := launch("three", 0); err == nil || !strings.Contains(err.Error(), "the disk is full") {
		t.Errorf("while nothing is admitted: %v", err)
	}
	if _, err := w.direct.Commit(t.Context(), controlplane.Txn{Ops: []controlplane.Op{{Key: controlplane.AdmissionKey(), Delete: true}}}); err != nil {
		t.Fatal(err)
	}
	w.put(map[string]types.Message{controlplane.NamespaceAdmissionKey("a"): &types.Admission{Budget: "keys", Reason: "max-keys"}})
	if err := launch("four", 0); err == nil || !strings.Contains(err.Error(), "over its budget") {
		t.Errorf("over the budget: %v", err)
	}
}

// TestLeavesNothingBehind: what runs is not deleted, and no lease deletes what its owner may not.
func TestLeavesNothingBehind(t *testing.T) {
	w := tenants(t)
	alice, _ := w.as("user:alice")
	kv, err := controlplane.Get(t.Context(), w.direct, controlplane.StatusKey("a", "t"))
	if err != nil {
		t.Fatal(err)
	}
	remove := controlplane.Txn{Compares: []controlplane.Compare{{Key: kv.Key, Revision: kv.ModRevision}}, Ops: []controlplane.Op{{Key: kv.Key, Delete: true}}}
	if _, err := alice.Commit(t.Context(), remove); err == nil || !strings.Contains(err.Error(), "stop it first") {
		t.Errorf("the status of a running task: %v", err)
	}
	w.put(map[string]types.Message{kv.Key: &types.Status{Phase: types.Cancelled}})
	if kv, err = controlplane.Get(t.Context(), w.direct, kv.Key); err != nil {
		t.Fatal(err)
	}
	remove.Compares[0].Revision = kv.ModRevision
	if res, err := alice.Commit(t.Context(), remove); err != nil || !res.Committed {
		t.Errorf("that of an ended one: %v, %v", res, err)
	}
	lease, err := alice.GrantLease(t.Context(), time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	spec := &types.Spec{Image: "busybox"}
	key := controlplane.SpecKey("a", controlplane.SpecDigest(spec))
	txn := controlplane.Txn{Compares: []controlplane.Compare{{Key: controlplane.NamespaceAdmissionKey("a")}}, Ops: []controlplane.Op{{Key: key, Value: types.Encode(1, spec), Lease: lease}}}
	if _, err := alice.Commit(t.Context(), txn); err == nil || !strings.Contains(err.Error(), "has a lease") {
		t.Errorf("a spec on a lease: %v", err)
	}
	nobody, _ := w.as("user:nobody")
	if _, err := nobody.GrantLease(t.Context(), time.Minute); !types.Is(err, types.Denied) {
		t.Errorf("a lease of a subject without rights: %v", err)
	}
	_, token, err := w.MakeToken(t.Context(), caller(t), types.Credential{Subject: "user:alice", Role: rights.Viewer}, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.bearing(token).RevokeLease(t.Context(), lease); err != nil {
		t.Error(err) // as one that is gone
	}
	if _, err := alice.RenewLease(t.Context(), lease); err != nil {
		t.Errorf("a token with bounds has ended a lease of its subject: %v", err)
	}
}

// TestUserIsTheSubmitter: a program submits in the name of its own user.
func TestUserIsTheSubmitter(t *testing.T) {
	w := tenants(t)
	alice, _ := w.as("user:alice")
	key := controlplane.TaskKey("a", "new")
	commit := func(task types.Task, revision int64) error {
		task.Name, task.Submitted, task.Requests = "t", 1, types.NewRequests(map[string]types.Quantity{"cpu": 1000})
		compares := []controlplane.Compare{{Key: key, Revision: revision}, {Key: controlplane.AdmissionKey()}, {Key: controlplane.NamespaceAdmissionKey("a")}, {Key: controlplane.NamespaceKey("a")}}
		_, err := alice.Commit(t.Context(), controlplane.Txn{Compares: compares, Ops: []controlplane.Op{{Key: key, Value: types.Encode(7, &task)}}})
		return err
	}
	if err := commit(types.Task{Labels: []types.Label{{Name: "user", Value: "bob"}}}, 0); !types.Is(err, types.Denied) {
		t.Errorf("a label with another user: %v", err)
	}
	if err := commit(types.Task{User: "bob"}, 0); err != nil {
		t.Fatal(err)
	}
	var stored types.Task
	kv, err := controlplane.Get(t.Context(), w.direct, key)
	if err != nil || !controlplane.Read(kv, &stored) || stored.User != "alice" || types.Batch(kv.Value) != 7 {
		t.Errorf("the user is %q, %v", stored.User, err)
	}
	if err := commit(types.Task{User: "bob"}, kv.ModRevision); !types.Is(err, types.Denied) {
		t.Errorf("another user afterwards: %v", err)
	}
	if err := commit(types.Task{User: "alice", Priority: 1}, kv.ModRevision); err != nil {
		t.Error(err)
	}
}

// TestUnread: the gateway reads no body of a call without a token, and of few whose token it does not know.
func TestUnread(t *testing.T) {
	w := tenants(t)
	conn, err := grpc.NewClient(w.address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close() //nolint:errcheck // it only asks
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	stream, err := conn.NewStream(ctx, &grpc.StreamDesc{}, pb.KV_Range_FullMethodName)
	if err != nil {
		t.Fatal(err)
	}
	// Nothing is sent: an answer comes nevertheless.
	if err := stream.RecvMsg(new(pb.RangeResponse)); status.Code(err) != codes.Unauthenticated {
		t.Errorf("%v", err)
	}
}

// TestNodesMakeNoTokens: a machine that was taken over leaves nothing that outlives its certificate.
func TestNodesMakeNoTokens(t *testing.T) {
	w := start(t, nil)
	node := access.Caller{Identity: access.Identity{Subject: "node:n1"}, May: func(n rights.Need, _ string) error { return types.Errorf(types.Denied, "no right to %s", n) }}
	if _, _, err := w.MakeToken(t.Context(), node, types.Credential{Subject: "node:n1"}, time.Hour); !types.Is(err, types.Denied) {
		t.Error(err)
	}
	if _, _, err := w.MakeToken(t.Context(), caller(t), types.Credential{Subject: "node:n1", Role: rights.Viewer}, time.Hour); !types.Is(err, types.Invalid) {
		t.Error(err)
	}
}

// TestServe: one port serves calls of gRPC and requests of HTTP, and both end together.
func TestServe(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := grpc.NewServer()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- gateway.Serve(ctx, l, s, func(ctx context.Context, l net.Listener) error {
			server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("hello")) }), ReadHeaderTimeout: time.Second}
			context.AfterFunc(ctx, func() { _ = server.Close() })
			_ = server.Serve(l)
			return nil
		})
	}()
	answer, err := http.Get("http://" + l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	if text, err := io.ReadAll(answer.Body); err != nil || string(text) != "hello" {
		t.Errorf("%q, %v", text, err)
	}
	_ = answer.Body.Close()
	conn, err := grpc.NewClient(l.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close() //nolint:errcheck // it only asks
	if err := conn.Invoke(ctx, pb.KV_Range_FullMethodName, &pb.RangeRequest{}, new(pb.RangeResponse)); status.Code(err) != codes.Unimplemented {
		t.Errorf("a call: %v", err)
	}
	cancel()
	select {
	case err := <-ended:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(20 * time.Second):
		t.Error("it does not end")
	}
	if _, err := net.Dial("tcp", l.Addr().String()); err == nil {
		t.Error("it still listens")
	}
}
