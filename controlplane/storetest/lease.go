package storetest

import (
	"fmt"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/types"
)

// grant grants a lease that outlasts the test.
func (f *fixture) grant() controlplane.LeaseID {
	f.Helper()
	id, err := f.GrantLease(f.ctx, time.Minute)
	if err != nil {
		f.Fatalf("grant lease: %v", err)
	}
	if id == 0 {
		f.Fatal("grant lease: its id is 0, which is none")
	}
	return id
}

// on returns a put of a key on a lease.
func (f *fixture) on(id controlplane.LeaseID, name string) controlplane.Op {
	return controlplane.Op{Key: f.key(name), Value: []byte("x"), Lease: id}
}

func (f *fixture) revoke(id controlplane.LeaseID) {
	f.Helper()
	if err := f.RevokeLease(f.ctx, id); err != nil {
		f.Fatalf("revoke lease: %v", err)
	}
}

func leaseTests() []conformance {
	return []conformance{
		{"revoke deletes the keys, at one revision, in their order", func(f *fixture) {
			id := f.grant()
			f.commit(f.on(id, "b"), f.on(id, "a"), f.put("free", ""))
			r := f.commit(f.on(id, "c"))
			w := f.watch(r + 1)
			f.revoke(id)
			batch := w.events()
			expect(f, "batch", w.describe(batch), fmt.Sprintf("%d: -a -b -c", batch.Revision))
			expect(f, "left", f.names(f.list(controlplane.ListOptions{})), []string{"free"})
		}},
		{"revoke of one that ended is success", func(f *fixture) {
			id := f.grant()
			f.revoke(id)
			f.revoke(id)
		}},
		{"the last put decides the lease of a key", func(f *fixture) {
			one, other := f.grant(), f.grant()
			f.commit(f.on(one, "freed"), f.on(one, "moved"), f.on(one, "recreated"))
			f.commit(f.put("freed", ""), f.on(other, "moved"), f.del("recreated"))
			f.commit(f.put("recreated", ""))
			f.revoke(one)
			expect(f, "left", f.names(f.list(controlplane.ListOptions{})), []string{"freed", "moved", "recreated"})
			f.revoke(other)
			expect(f, "left", f.names(f.list(controlplane.ListOptions{})), []string{"freed", "recreated"})
		}},
		{"put on a lease that ended is not found, and nothing is written", func(f *fixture) {
			id := f.grant()
			f.revoke(id)
			_, err := f.Commit(f.ctx, controlplane.Txn{Ops: []controlplane.Op{f.put("a", ""), f.on(id, "b")}})
			expectClass(f, "commit", err, types.NotFound)
			expect(f, "left", len(f.list(controlplane.ListOptions{}).KVs), 0)
		}},
		{"renew returns the time to live", func(f *fixture) {
			id, err := f.GrantLease(f.ctx, 9500*time.Millisecond)
			if err != nil {
				f.Fatal(err)
			}
			ttl, err := f.RenewLease(f.ctx, id)
			if err != nil {
				f.Fatal(err)
			}
			expect(f, "ttl, rounded up", ttl, 10*time.Second)
		}},
		{"renew of one that ended is not found", func(f *fixture) {
			id := f.grant()
			f.revoke(id)
			_, err := f.RenewLease(f.ctx, id)
			expectClass(f, "renew", err, types.NotFound)
		}},
		{"a time to live of nothing is invalid", func(f *fixture) {
			_, err := f.GrantLease(f.ctx, 0)
			expectClass(f, "grant", err, types.Invalid)
		}},
		{"it expires, and renewal delays that", testExpiry},
	}
}

// testExpiry grants two leases with the same time to live. The renewed one must outlast the other.
func testExpiry(f *fixture) {
	grant := func() controlplane.LeaseID {
		id, err := f.GrantLease(f.ctx, time.Second)
		if err != nil {
			f.Fatal(err)
		}
		return id
	}
	renewed, left := grant(), grant()
	r := f.commit(f.on(renewed, "renewed"), f.on(left, "left"))
	w := f.watch(r + 1)
	stop := make(chan struct{})
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		tick := time.NewTicker(200 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-stop:
				return
			case <-tick.C:
				if _, err := f.RenewLease(f.ctx, renewed); err != nil {
					f.Errorf("renew: %v", err)
					return
				}
			}
		}
	}()
	batch := w.events()
	expect(f, "first to end", w.describe(batch), fmt.Sprintf("%d: -left", batch.Revision))
	expect(f, "left", f.names(f.list(controlplane.ListOptions{})), []string{"renewed"})
	close(stop)
	<-stopped
	batch = w.events()
	expect(f, "second to end", w.describe(batch), fmt.Sprintf("%d: -renewed", batch.Revision))
}
