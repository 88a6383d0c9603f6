package gateway_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/etcdstore"
	"github.com/escher-sched/escher/types"
	"github.com/escher-sched/escher/types/rights"
)

// tenants fills a store with the objects of two namespaces, of which user:alice is a member of a. A task
// of a runs on n1.
func tenants(t *testing.T) *world {
	t.Helper()
	w := start(t, nil)
	w.grant("alice", types.Right{Subjects: []string{"user:alice"}, Role: rights.Member, Namespaces: []string{"a"}})
	values := map[string]types.Message{
		controlplane.NodeKey("n1"): &types.Node{Capacity: types.NewRequests(map[string]types.Quantity{"cpu": 4000})},
		controlplane.AllocatedKey("n1"): &types.Allocated{Holds: []types.Holding{
			{Resource: "a:license", Amount: 1000}, {Resource: "b:secret", Amount: 1000}, {Resource: "cpu", Amount: 2000},
		}},
		controlplane.PoolKey("b", "secret"): &types.Allocated{Holds: []types.Holding{{Resource: "b:secret", Amount: 1000, Cluster: true}}},
	}
	for _, ns := range []string{"a", "b"} {
		values[controlplane.StatusKey(ns, "t")] = &types.Status{Phase: types.Bound, Node: "n1", Attempt: 1, Bound: 1}
		values[controlplane.BindingKey("n1", ns, "t", 1)] = &types.Binding{Bound: 1}
	}
	w.put(values)
	return w
}

// keys returns the keys below a prefix, by every way to read: at once, in pages of one, as a stream.
func keys(t *testing.T, s *etcdstore.Store, prefix string) []string {
	t.Helper()
	names := func(kvs []controlplane.KV) (all []string) {
		for _, kv := range kvs {
			all = append(all, kv.Key)
		}
		return all
	}
	page, err := s.List(t.Context(), controlplane.ListOptions{Prefix: prefix})
	if err != nil {
		return []string{err.Error()}
	}
	got := names(page.KVs)
	streamed, _, err := controlplane.ListAll(t.Context(), s, controlplane.ListOptions{Prefix: prefix})
	if err != nil || !slices.Equal(names(streamed), got) {
		t.Errorf("%s: %v, as a stream %v, %v", prefix, got, names(streamed), err)
	}
	var paged []string
	_, err = controlplane.ScanPages(t.Context(), s, controlplane.ListOptions{Prefix: prefix, Limit: 1}, func(part []controlplane.KV) error {
		paged = append(paged, names(part)...)
		return nil
	})
	if err != nil || !slices.Equal(paged, got) {
		t.Errorf("%s: %v, in pages %v, %v", prefix, got, paged, err)
	}
	return got
}

// TestTenants: a member of a namespace sees its keys and the facts of the cluster, in every way to read.
func TestTenants(t *testing.T) {
	w := tenants(t)
	alice, _ := w.as("user:alice")
	for prefix, want := range map[string][]string{
		controlplane.Prefix(controlplane.Statuses):            {"/escher/status/a/t"},
		controlplane.Prefix(controlplane.Statuses, "a"):       {"/escher/status/a/t"},
		controlplane.Prefix(controlplane.Bindings):            {"/escher/bindings/n1/a/t/1"},
		controlplane.Prefix(controlplane.Bindings, "n1"):      {"/escher/bindings/n1/a/t/1"},
		controlplane.Prefix(controlplane.Bindings, "n1", "a"): {"/escher/bindings/n1/a/t/1"},
		controlplane.Prefix(controlplane.Allocated):           {"/escher/allocated/n1"},
		controlplane.Prefix(controlplane.Nodes):               {"/escher/nodes/n1"},
		controlplane.Prefix(controlplane.Tasks):               nil,
		controlplane.Prefix(controlplane.Statuses, "b"):       {"no right to read tasks in namespace b"},
		controlplane.Prefix(controlplane.Bindings, "n1", "b"): {"no right to read tasks in namespace b"},
		controlplane.Prefix(controlplane.Credentials):         {"may not read /escher/credentials/"},
		controlplane.Prefix(controlplane.Tokens):              {"may not read /escher/tokens/"},
		controlplane.Prefix(controlplane.Leaders):             nil,
		controlplane.Prefix(controlplane.Allocated, "*", "b"): {"no right to read resources in namespace b"},
		"/escher/": {"/escher/allocated/n1", "/escher/bindings/n1/a/t/1", "/escher/nodes/n1", "/escher/status/a/t"},
		"":         {"holds keys that are not Escher's"},
	} {
		got := keys(t, alice, prefix)
		if !slices.EqualFunc(got, want, strings.Contains) {
			t.Errorf("%q: %v, want %v", prefix, got, want)
		}
	}
	nobody, _ := w.as("user:nobody")
	if got := keys(t, nobody, controlplane.Prefix(controlplane.Statuses)); len(got) != 1 || !strings.Contains(got[0], "user:nobody: has no right to read tasks") {
		t.Errorf("%v", got)
	}
	if got := keys(t, nobody, "/escher/"); len(got) != 1 || !strings.Contains(got[0], "user:nobody: may not read /escher/") {
		t.Errorf("%v", got)
	}

	// No way to read what is allocated tells the names of other tenants.
	var a types.Allocated
	kv, err := controlplane.Get(t.Context(), alice, controlplane.AllocatedKey("n1"))
	if err != nil || !controlplane.Read(kv, &a) || len(a.Holds) != 2 || a.Of("b:secret") != 0 || a.Of("cpu") != 2000 {
		t.Errorf("%+v, %v", a, err)
	}
	page, err := alice.List(t.Context(), controlplane.ListOptions{Keys: []string{controlplane.AllocatedKey("n1")}})
	if err != nil || strings.Contains(string(page.KVs[0].Value), "secret") {
		t.Errorf("%v, %v", page, err)
	}
}

// next returns the next batch with events, or with an error.
func next(t *testing.T, watch <-chan controlplane.Batch) controlplane.Batch {
	t.Helper()
	timeout := time.After(20 * time.Second)
	for {
		select {
		case b := <-watch:
			if len(b.Events) > 0 || b.Err != nil {
				return b
			}
		case <-timeout:
			t.Fatal("no event")
		}
	}
}

// TestWatches: a watch of a kind delivers the changes that its user may see. It ends within seconds
// when the user loses its right, or its token.
func TestWatches(t *testing.T) {
	w := tenants(t)
	alice, _ := w.as("user:alice")
	w.grant("bob", types.Right{Subjects: []string{"user:bob"}, Role: rights.Viewer, Namespaces: []string{"a", "b"}})
	bob, token := w.as("user:bob")
	begin, err := controlplane.Get(t.Context(), w.direct, controlplane.NodeKey("n1"))
	if err != nil {
		t.Fatal(err)
	}
	watch := func(s *etcdstore.Store, prefix string) <-chan controlplane.Batch {
		return s.Watch(t.Context(), controlplane.WatchOptions{Prefix: prefix, From: begin.ModRevision + 1})
	}
	statuses := controlplane.Prefix(controlplane.Statuses)
	hers, his, hisOfB := watch(alice, statuses), watch(bob, statuses), watch(bob, controlplane.Prefix(controlplane.Statuses, "b"))
	for _, ns := range []string{"b", "a"} {
		w.put(map[string]types.Message{controlplane.StatusKey(ns, "t"): &types.Status{Phase: types.Pending}})
	}
	if b := next(t, hers); b.Err != nil || b.Events[0].Key != "/escher/status/a/t" {
		t.Errorf("she sees %+v", b)
	}
	for _, want := range []string{"b", "a"} {
		if b := next(t, his); b.Err != nil || b.Events[0].Key != controlplane.StatusKey(want, "t") {
			t.Errorf("he sees %+v", b)
		}
	}
	next(t, hisOfB)

	if b := next(t, watch(alice, controlplane.Prefix(controlplane.Statuses, "b"))); !strings.Contains(b.Err.Error(), "user:alice: has no right to read tasks in namespace b") {
		t.Errorf("%v", b.Err)
	}
	w.grant("bob", types.Right{Subjects: []string{"user:bob"}, Role: rights.Viewer, Namespaces: []string{"a"}})
	if b := next(t, hisOfB); !strings.Contains(b.Err.Error(), "user:bob: has no right to read tasks in namespace b") {
		t.Errorf("%v", b.Err)
	}
	w.put(map[string]types.Message{controlplane.StatusKey("b", "t"): &types.Status{Phase: types.Bound, Node: "n1", Attempt: 1, Bound: 1}})
	w.put(map[string]types.Message{controlplane.StatusKey("a", "t"): &types.Status{Phase: types.Bound, Node: "n1", Attempt: 1, Bound: 1}})
	if b := next(t, his); b.Err != nil || b.Events[0].Key != "/escher/status/a/t" {
		t.Errorf("without the right he sees %+v", b)
	}
	if err := w.RevokeToken(t.Context(), caller(t), token); err != nil {
		t.Fatal(err)
	}
	if b := next(t, his); !types.Is(b.Err, types.Denied) || !strings.Contains(b.Err.Error(), "was revoked") {
		t.Errorf("%v", b.Err)
	}
}

// TestSharedStream: refused watches and others on one stream get their own answers.
func TestSharedStream(t *testing.T) {
	w := tenants(t)
	alice, _ := w.as("user:alice", etcdstore.SharedWatches())
	var open []<-chan controlplane.Batch
	prefixes := []string{"a", "b", "b", "a", "b"}
	for _, ns := range prefixes {
		open = append(open, alice.Watch(t.Context(), controlplane.WatchOptions{Prefix: controlplane.Prefix(controlplane.Statuses, ns), From: 1}))
	}
	for i, ns := range prefixes {
		if b := next(t, open[i]); (b.Err == nil) != (ns == "a") || ns == "a" && b.Events[0].Key != "/escher/status/a/t" {
			t.Errorf("watch %d of %s: %+v", i, ns, b)
		}
	}
}

// TestTransactions is the table of transactions of a member of a, each with what its refusal says.
func TestTransactions(t *testing.T) {
	w := tenants(t)
	alice, _ := w.as("user:alice")
	lease, err := w.direct.GrantLease(t.Context(), time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	own, err := alice.GrantLease(t.Context(), time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	resource := types.Encode(1, &types.Resource{Capacity: 1000})
	task := types.Encode(1, &types.Task{Name: "t", Submitted: 1, Requests: types.NewRequests(map[string]types.Quantity{"cpu": 1000})})
	absent := func(keys ...string) (all []controlplane.Compare) {
		for _, key := range keys {
			all = append(all, controlplane.Compare{Key: key})
		}
		return all
	}
	put := func(key string, value []byte, compares ...controlplane.Compare) controlplane.Txn {
		return controlplane.Txn{Compares: compares, Ops: []controlplane.Op{{Key: key, Value: value}}}
	}
	mine, theirs := controlplane.ResourceKey("a", "x", "*"), controlplane.ResourceKey("b", "x", "*")
	session, budget := controlplane.SessionKey("a", "s"), controlplane.NamespaceAdmissionKey("a")
	leased := func(id controlplane.LeaseID) controlplane.Txn {
		txn := put(session, types.Encode(1, &types.Session{}), absent(session, budget)...)
		txn.Ops[0].Lease = id
		return txn
	}
	guards := absent(controlplane.TaskKey("a", "new"), controlplane.AdmissionKey(), controlplane.NamespaceAdmissionKey("a"), controlplane.NamespaceKey("a"))
	for name, c := range map[string]struct {
		txn  controlplane.Txn
		says string
	}{
		"put":                  {put(mine, resource, absent(mine, budget)...), ""},
		"put of b":             {put(theirs, resource, absent(theirs)...), "no right to read resources in namespace b"},
		"no compare":           {put(mine, resource), "is put, and not compared"},
		"compare with b":       {put(mine, resource, append(absent(mine), absent(theirs)...)...), "no right to read resources in namespace b"},
		"range of two tenants": {put(mine, resource, append(absent(mine), controlplane.Compare{Key: controlplane.Prefix(controlplane.Resources), Target: controlplane.Newest})...), "holds keys that user:alice may not read"},
		"value of allocated":   {put(mine, resource, append(absent(mine), controlplane.Compare{Key: controlplane.AllocatedKey("n1"), Target: controlplane.Value, Content: "x"})...), "holds keys that user:alice may not read"},
		"junk":                 {put(mine, []byte("junk"), absent(mine)...), "readers would not take this value"},
		"another message":      {put(controlplane.ResourceKey("a", "y", "*"), task, absent(controlplane.ResourceKey("a", "y", "*"))...), "readers would not take this value"},
		"no key":               {put("/escher/resources/a/x", resource, absent(mine)...), "is no key of Escher"},
		"outside":              {put("/elsewhere", resource), "is no key of Escher"},
		"status":               {put(controlplane.StatusKey("a", "t"), types.Encode(1, &types.Status{Phase: types.Pending}), absent(controlplane.StatusKey("a", "t"))...), "no right to write bindings"},
		"binding":              {put(controlplane.BindingKey("n1", "a", "t", 2), types.Encode(1, &types.Binding{Bound: 1}), absent(controlplane.BindingKey("n1", "a", "t", 2))...), "no right to write bindings"},
		"right":                {put(controlplane.RightKey("me"), types.Encode(1, &types.Right{}), absent(controlplane.RightKey("me"))...), "may not read /escher/rights/me"},
		"task":                 {put(controlplane.TaskKey("a", "new"), task, guards...), ""},
		"task past admission":  {put(controlplane.TaskKey("a", "new2"), task, absent(controlplane.TaskKey("a", "new2"), controlplane.NamespaceAdmissionKey("a"), controlplane.NamespaceKey("a"))...), "/escher/system/admission is not compared"},
		"task past its budget": {put(controlplane.TaskKey("a", "new2"), task, absent(controlplane.TaskKey("a", "new2"), controlplane.AdmissionKey(), controlplane.NamespaceKey("a"))...), "/escher/admissions/a is not compared"},
		"lease of another":     {leased(lease), "belongs to another subject"},
		"no lease":             {leased(0), "has no lease"},
		"own lease":            {leased(own), ""},
		"delete":               {controlplane.Txn{Ops: []controlplane.Op{{Key: mine, Delete: true}}}, "is deleted, and not compared"},
		"delete of b":          {controlplane.Txn{Ops: []controlplane.Op{{Key: theirs, Delete: true}}}, "no right to write resources in namespace b"},
	} {
		t.Run(name, func(t *testing.T) {
			before, err := controlplane.Get(t.Context(), w.direct, controlplane.NodeKey("n1"))
			if err != nil {
				t.Fatal(err)
			}
			res, err := alice.Commit(t.Context(), c.txn)
			switch {
			case c.says == "":
				if err != nil || !res.Committed {
					t.Errorf("%+v, %v", res, err)
				}
			case err == nil || !strings.Contains(err.Error(), c.says) || !types.Is(err, types.Denied) && !types.Is(err, types.Invalid):
				t.Errorf("%v, want %q", err, c.says)
			}
			_ = before
		})
	}
}

// TestOthersLeases: a lease belongs to its subject, for every server.
func TestOthersLeases(t *testing.T) {
	w := tenants(t)
	alice, _ := w.as("user:alice")
	again, _ := w.as("user:alice")
	bob, _ := w.as("user:bob")
	id, err := alice.GrantLease(t.Context(), time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	if ttl, err := again.RenewLease(t.Context(), id); err != nil || ttl <= 0 {
		t.Errorf("%v, %v", ttl, err)
	}
	if _, err := bob.RenewLease(t.Context(), id); !types.Is(err, types.NotFound) {
		t.Errorf("another renews it: %v", err)
	}
	if err := bob.RevokeLease(t.Context(), id); err != nil {
		t.Error(err) // as one that is gone
	}
	if _, err := alice.RenewLease(t.Context(), id); err != nil {
		t.Errorf("another has ended it: %v", err)
	}
	kv := pb.NewLeaseClient(bob.Client().ActiveConnection())
	for name, req := range map[string]*pb.LeaseGrantRequest{"an id": {ID: int64(id) + 1, TTL: 5}, "no end": {TTL: 1 << 40}, "no life": {TTL: 0}} {
		if _, err := kv.LeaseGrant(t.Context(), req); err == nil {
			t.Errorf("%s is granted", name)
		}
	}
	if _, err := kv.LeaseLeases(t.Context(), &pb.LeaseLeasesRequest{}); err == nil {
		t.Error("it lists leases")
	}
}

// TestOnlyWhatIsServed: the rest of etcd's API is closed.
func TestOnlyWhatIsServed(t *testing.T) {
	w := tenants(t)
	alice, _ := w.as("user:alice")
	c := alice.Client()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	kv := pb.NewKVClient(c.ActiveConnection())
	for name, call := range map[string]func() error{
		"put": func() error {
			_, err := kv.Put(ctx, &pb.PutRequest{Key: []byte(controlplane.ResourceKey("a", "x", "*"))})
			return err
		},
		"delete": func() error {
			_, err := kv.DeleteRange(ctx, &pb.DeleteRangeRequest{Key: []byte("/escher/status/a/t")})
			return err
		},
		"compact": func() error { _, err := kv.Compact(ctx, &pb.CompactionRequest{Revision: 1}); return err },
		"nested": func() error {
			_, err := c.Txn(ctx).Then(clientv3.OpTxn(nil, []clientv3.Op{clientv3.OpGet("/escher/status/b/t")}, nil)).Commit()
			return err
		},
		"else": func() error { _, err := c.Txn(ctx).Else(clientv3.OpDelete("/escher/status/b/t")).Commit(); return err },
		"delete all": func() error {
			_, err := c.Txn(ctx).Then(clientv3.OpDelete("/escher/", clientv3.WithPrefix())).Commit()
			return err
		},
		"count": func() error {
			_, err := c.Get(ctx, "/escher/status/", clientv3.WithPrefix(), clientv3.WithCountOnly())
			return err
		},
		"sorted":      func() error { _, err := c.Get(ctx, "/escher/status/", clientv3.WithLastRev()...); return err },
		"members":     func() error { _, err := c.MemberList(ctx); return err },
		"status":      func() error { _, err := c.Status(ctx, w.address); return err },
		"snapshot":    func() error { _, err := c.SnapshotWithVersion(ctx); return err },
		"users":       func() error { _, err := c.UserList(ctx); return err },
		"move leader": func() error { _, err := c.MoveLeader(ctx, 1); return err },
	} {
		if err := call(); err == nil || ctx.Err() != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, token := range []string{"", "escher_x_y", strings.Repeat("x", 5000)} {
		s, err := etcdstore.Open(etcdstore.Config{Endpoints: []string{w.address}, Token: token})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.List(ctx, controlplane.ListOptions{Key: "/escher/system/epoch"}); !types.Is(err, types.Denied) {
			t.Errorf("token %.20q: %v", token, err)
		}
		_ = s.Close()
	}
}

// TestAgentsAddress: servers connect to the address of a node, so an agent gives none that means their own
// machine.
func TestAgentsAddress(t *testing.T) {
	w := tenants(t)
	agent, _ := w.as("node:n7")
	key := controlplane.NodeKey("n7")
	for address, want := range map[string]bool{
		"": true, types.TunnelAddress: true, "https://h:7421": true, "http://10.0.0.7:7421": true, "https://[fd00::7]:7421": true, "http://127.0.0.1:7421#3b7a6d7e-boot": true,
		"unix:/run/escher/api.sock": false, "unix:///run/escher/api.sock": false, "UNIX:/run/escher/api.sock": false, "Unix:///run/escher/api.sock": false,
		"HTTP://h:7421": false, "https:": false, "https://": false, "https://:7421": false, "https://user@h:7421": false, "https://h:7421/": false, "https://h:7421/path": false,
		"https://h:7421?a=b": false, "https://h:7421?": false, "https://h:7421#": false, "h:7421": false, "ftp://h:7421": false, "Tunnel:": false, " https://h:7421": false,
	} {
		value := types.Encode(1, &types.Node{Address: address, Capacity: types.NewRequests(map[string]types.Quantity{"cpu": 4000})})
		now, err := controlplane.Get(t.Context(), w.direct, key)
		if err != nil {
			t.Fatal(err)
		}
		res, err := agent.Commit(t.Context(), controlplane.Txn{
			Compares: []controlplane.Compare{{Key: key, Target: controlplane.ModRevision, Revision: now.ModRevision}}, Ops: []controlplane.Op{{Key: key, Value: value}},
		})
		if want && (err != nil || !res.Committed) || !want && (!types.Is(err, types.Denied) || !strings.Contains(err.Error(), "is not the port of an agent")) {
			t.Errorf("%s: %+v, %v", address, res, err)
		}
	}
}
