package gateway

import (
	"context"
	"slices"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/audit"
	"github.com/escher-sched/escher/controlplane/writers"
	"github.com/escher-sched/escher/types"
)

// Txn commits a transaction.
func (s kvServer) Txn(ctx context.Context, req *pb.TxnRequest) (*pb.TxnResponse, error) {
	c := &check{user: from(ctx), limits: s.g.cfg.Limits, absent: make(map[string]bool)}
	if err := c.txn(ctx, req); err != nil {
		return nil, err
	}
	res, err := s.g.kv.Txn(onward(ctx), req, answers())
	if err != nil {
		return nil, err
	}
	shown := c.success
	if !res.Succeeded {
		shown = c.failure
	}
	for i, v := range shown {
		if r := res.Responses[i].GetResponseRange(); r != nil && !v.whole() {
			if r.Kvs = c.user.shown(ctx, v, r.Kvs); v.visible != nil {
				r.Count = int64(len(r.Kvs))
			}
		}
	}
	return res, nil
}

// check checks a transaction.
type check struct {
	user   user
	limits controlplane.Limits
	// absent has the compared keys, each with whether it is compared as absent.
	absent map[string]bool
	// success and failure say what the user sees of the reads of each branch.
	success, failure []view
}

// txn returns nil if the user may commit a transaction, and readers take its values.
func (c *check) txn(ctx context.Context, req *pb.TxnRequest) (err error) {
	if most := max(len(req.Compare), len(req.Success), len(req.Failure)); most > c.limits.Ops {
		return rpctypes.ErrGRPCTooManyOps
	}
	for _, compare := range req.Compare {
		if len(compare.Key) == 0 {
			return rpctypes.ErrGRPCEmptyKey
		}
		if err := c.compare(ctx, compare); err != nil {
			return err
		}
	}
	if c.success, err = c.branch(ctx, req.Success, true); err == nil {
		c.failure, err = c.branch(ctx, req.Failure, false)
	}
	return err
}

// compare takes a compare, which tells something about its keys.
func (c *check) compare(ctx context.Context, compare *pb.Compare) error {
	v, err := looks(ctx, c.user, compare.Key, compare.RangeEnd)
	if err != nil {
		return err
	}
	if v.visible != nil || v.redacts && compare.Target == pb.Compare_VALUE {
		return types.Errorf(types.Denied, "compare %.100q: it holds keys that %s may not read: name a namespace, or one key", compare.Key, c.user.Subject)
	}
	if len(compare.RangeEnd) > 0 || compare.Result != pb.Compare_EQUAL {
		return nil
	}
	key := string(compare.Key)
	switch compare.Target {
	case pb.Compare_MOD:
		c.absent[key] = compare.GetModRevision() == 0
	case pb.Compare_CREATE:
		c.absent[key] = compare.GetCreateRevision() == 0
	case pb.Compare_VALUE:
		c.absent[key] = false
	}
	return nil
}

// branch checks the operations of a branch, and says what the user sees of its reads.
func (c *check) branch(ctx context.Context, ops []*pb.RequestOp, writes bool) ([]view, error) {
	seen := make([]view, len(ops))
	for i, op := range ops {
		var err error
		switch op := op.Request.(type) {
		case *pb.RequestOp_RequestRange:
			seen[i], err = looks(ctx, c.user, op.RequestRange.Key, op.RequestRange.RangeEnd)
			if err == nil && seen[i].visible != nil && op.RequestRange.CountOnly {
				err = types.Errorf(types.Invalid, "read %.100q: counts keys that %s may not read: name a namespace", op.RequestRange.Key, c.user.Subject)
			}
		case *pb.RequestOp_RequestPut:
			err = c.put(ctx, op.RequestPut, writes)
		case *pb.RequestOp_RequestDeleteRange:
			err = c.delete(ctx, op.RequestDeleteRange, writes)
		default:
			err = types.Errorf(types.Invalid, "commit: a transaction within a transaction is not served: send them one by one")
		}
		if err != nil {
			return nil, err
		}
	}
	return seen, nil
}

// changed returns the key of a change. It checks that the user may change it, and that the transaction
// compares it.
func (c *check) changed(ctx context.Context, key []byte, deletes, writes bool) (k controlplane.Key, err error) {
	if len(key) == 0 {
		return k, rpctypes.ErrGRPCEmptyKey
	}
	k, ok := controlplane.Parse(string(key))
	if c.user.Root {
		return k, nil // as by etcd itself
	}
	if !ok {
		return k, types.Errorf(types.Invalid, "commit: %.100q is no key of Escher: see docs/keyspace.md", key)
	}
	if err := c.user.changes(ctx, k, deletes); err != nil {
		return k, err
	}
	if !writes {
		return k, types.Errorf(types.Invalid, "commit: %s is changed when the compares fail: change it when they hold", k)
	}
	return k, nil
}

// guarded reports whether the transaction compares what a change of a key relies on, so that a late copy
// of it does nothing. What applications want is compared itself, and specs never change. Schedulers and
// agents have other guards, such as the status of a task for its binding.
func (c *check) guarded(k controlplane.Key) bool {
	if k.Kind == controlplane.Specs {
		return true
	}
	if !slices.Contains(c.user.table[k.Kind].Put, writers.Application) {
		return len(c.absent) > 0
	}
	_, compared := c.absent[k.String()]
	return compared
}

// put checks that readers take a value, and that what it needs is compared.
func (c *check) put(ctx context.Context, put *pb.PutRequest, writes bool) error {
	k, err := c.changed(ctx, put.Key, false, writes)
	if err != nil {
		return err
	}
	m := audit.NewMessage(k)
	absent := c.absent[string(put.Key)]
	switch {
	case m == nil && c.user.Root: // no key of Escher
		return nil
	case m == nil:
		return types.Errorf(types.Invalid, "commit: %s has no value: see docs/keyspace.md", k)
	case put.PrevKv || put.IgnoreValue || put.IgnoreLease:
		return types.Errorf(types.Invalid, "commit: %s: prev_kv, ignore_value and ignore_lease are not served: leave them out", k)
	case c.user.Root: // may do more, but not store what no reader takes
	case put.Lease != 0 && !c.user.owns(put.Lease):
		return types.Errorf(types.Denied, "commit: %s: lease %x belongs to another subject: grant one", k, put.Lease)
	case put.Lease == 0 && k.Kind.Leased():
		return types.Errorf(types.Invalid, "commit: %s: has no lease, and would stay for ever: grant one", k)
	case !c.guarded(k):
		return types.Errorf(types.Invalid, "commit: %s: is put, and not compared: compare its revision, 0 if it is not there", k)
	}
	if err := types.Decode(put.Value, m); err != nil {
		return types.Errorf(types.Invalid, "commit: %s: %w: readers would not take this value: correct it", k, err)
	}
	if spec, ok := m.(*types.Spec); ok && controlplane.SpecDigest(spec) != k.ID {
		return types.Errorf(types.Invalid, "commit: %s: its content has the digest %s: name it so", k, controlplane.SpecDigest(spec))
	}
	if !c.user.Root && absent && (k.Kind == controlplane.Tasks || k.Kind == controlplane.Reservations) {
		for _, guard := range []string{controlplane.AdmissionKey(), controlplane.NamespaceAdmissionKey(k.Namespace), controlplane.NamespaceKey(k.Namespace)} {
			if _, compared := c.absent[guard]; !compared {
				return types.Errorf(types.Invalid, "commit: %s: is new, and %s is not compared, which says what is admitted: compare its revision, 0 if it is not there", k, guard)
			}
		}
	}
	return nil
}

// delete checks a deletion.
func (c *check) delete(ctx context.Context, d *pb.DeleteRangeRequest, writes bool) error {
	if len(d.RangeEnd) > 0 || d.PrevKv {
		return types.Errorf(types.Invalid, "commit: %.100q: deletions of ranges, and prev_kv, are not served: delete each key", d.Key)
	}
	k, err := c.changed(ctx, d.Key, true, writes)
	if err == nil && !c.guarded(k) && !c.user.Root {
		err = types.Errorf(types.Invalid, "commit: %s: is deleted, and not compared: compare its revision", k)
	}
	return err
}
