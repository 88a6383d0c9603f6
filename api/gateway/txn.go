package gateway

import (
	"context"
	"math"
	"slices"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/audit"
	"github.com/escher-sched/escher/controlplane/submitter"
	"github.com/escher-sched/escher/controlplane/writers"
	"github.com/escher-sched/escher/types"
	"github.com/escher-sched/escher/types/rights"
)

// kvDescription describes the service of keys, whose transactions come and go as they are encoded:
// they are most of the work of a scheduler.
func kvDescription() *grpc.ServiceDesc {
	d := pb.KV_ServiceDesc
	d.Methods = slices.Clone(d.Methods)
	for i, m := range d.Methods {
		if m.MethodName == "Txn" {
			d.Methods[i].Handler = handleTxn
		}
	}
	return &d
}

func handleTxn(srv any, ctx context.Context, decode func(any) error, intercept grpc.UnaryServerInterceptor) (any, error) {
	req := new(frame)
	if err := decode(req); err != nil {
		return nil, err
	}
	info := &grpc.UnaryServerInfo{Server: srv, FullMethod: pb.KV_Txn_FullMethodName}
	return intercept(ctx, req, info, func(ctx context.Context, req any) (any, error) { return srv.(kvServer).commit(ctx, req.(*frame)) })
}

// commit commits a transaction.
func (s kvServer) commit(ctx context.Context, req *frame) (*frame, error) {
	c := &check{user: from(ctx).remembering(), g: s.g, compared: make(map[string]uint64)}
	if err := c.txn(ctx, req.data); err != nil {
		return nil, err
	}
	if len(c.recorded) > 0 {
		var err error
		if req, err = c.record(req); err != nil {
			return nil, err
		}
	}
	answer := new(frame)
	if err := s.g.cfg.Etcd.Invoke(onward(ctx), pb.KV_Txn_FullMethodName, req, answer, answers(), grpc.ForceCodecV2(s.g.codec)); err != nil {
		return nil, err
	}
	if c.whole() {
		return answer, nil
	}
	var res pb.TxnResponse
	if err := proto.Unmarshal(answer.data, &res); err != nil {
		return nil, types.Errorf(types.Internal, "read etcd's answer: %w", err)
	}
	c.hide(ctx, &res)
	data, err := proto.Marshal(&res)
	return &frame{data}, err
}

// remembering returns a user whose rights are asked for once each, for one request.
func (u user) remembering() user {
	type question struct {
		need rights.Need
		ns   string
	}
	ask, told := u.May, make(map[question]error)
	u.May = func(n rights.Need, ns string) error {
		err, known := told[question{n, ns}]
		if !known {
			err = ask(n, ns)
			told[question{n, ns}] = err
		}
		return err
	}
	type answer struct {
		bound bool
		err   error
	}
	askBound, known := u.bound, make(map[string]answer)
	u.bound = func(ctx context.Context, node, ns string) (bool, error) {
		a, ok := known[ns]
		if !ok {
			a.bound, a.err = askBound(ctx, node, ns)
			known[ns] = a
		}
		return a.bound, a.err
	}
	return u
}

// check checks a transaction.
type check struct {
	user user
	g    *Gateway
	// compared has the keys of which the transaction compares the revision, 0 for absent, or any for those of
	// which it compares more or less than that.
	compared map[string]uint64
	// success and failure say what the user sees of the operations of each branch.
	success, failure []view
	// recorded has the values of puts with the submitter added, by the number of the operation.
	recorded map[int][]byte
	// settings and closed are those of a namespace, once they are read.
	settings map[string]*types.Namespace
	// shares are the checks of Config.Rules, once they are made.
	shares *submitter.Checks
}

// checks returns those of Config.Rules for the transaction; nil if there are none.
func (c *check) checks(ctx context.Context) *submitter.Checks {
	if c.shares == nil && c.g.cfg.Rules != nil {
		c.shares = c.g.cfg.Rules(ctx)
	}
	return c.shares
}

// anyRevision stands for a compare that does not say that a key is at a revision.
const anyRevision = math.MaxUint64

// txn returns nil if the user may commit a transaction, and readers take its values.
func (c *check) txn(ctx context.Context, data []byte) error {
	compares, branches, err := parseTxn(data)
	if err != nil {
		return err
	}
	if max(len(compares), len(branches[0]), len(branches[1])) > c.g.cfg.Limits.Ops {
		return rpctypes.ErrGRPCTooManyOps
	}
	for i := range compares {
		if err := c.compare(ctx, &compares[i]); err != nil {
			return err
		}
	}
	if c.success, err = c.branch(ctx, branches[0], true); err == nil {
		c.failure, err = c.branch(ctx, branches[1], false)
	}
	return err
}

// compare takes a compare, which tells something about its keys.
func (c *check) compare(ctx context.Context, x *compare) error {
	if len(x.key) == 0 {
		return rpctypes.ErrGRPCEmptyKey
	}
	v, err := looks(ctx, c.user, x.key, x.end)
	if err != nil {
		return err
	}
	if v.visible != nil || v.redacts && x.target == pb.Compare_VALUE {
		return types.Errorf(types.Denied, "compare %.100q: it holds keys that %s may not read: name a namespace, or one key", x.key, c.user.Subject)
	}
	if _, ours := controlplane.Parse(string(x.key)); !ours || len(x.end) > 0 || x.result != pb.Compare_EQUAL {
		return nil
	}
	revision := uint64(anyRevision)
	switch {
	case x.target == pb.Compare_MOD, x.target == pb.Compare_CREATE && x.revision == 0:
		revision = x.revision
	}
	if was, twice := c.compared[string(x.key)]; !twice || was == anyRevision {
		c.compared[string(x.key)] = revision
	}
	return nil
}

// branch checks the operations of a branch, and says what the user sees of their answers.
func (c *check) branch(ctx context.Context, ops []operation, writes bool) (seen []view, err error) {
	for i := range ops {
		op := &ops[i]
		switch op.kind {
		case reads:
			var v view
			if v, err = looks(ctx, c.user, op.key, op.end); err == nil && !v.whole() {
				if v.visible != nil || len(op.end) > 0 {
					err = types.Errorf(types.Invalid, "read %.100q: holds what %s may not see: read it outside of a transaction, or name a namespace", op.key, c.user.Subject)
				}
				if seen == nil {
					seen = make([]view, len(ops))
				}
				seen[i] = v
			}
		case puts:
			err = c.put(ctx, i, op, writes)
		case deletes:
			err = c.delete(ctx, op, writes)
		default:
			err = types.Errorf(types.Invalid, "commit: an operation does nothing: leave it out")
		}
		if err != nil {
			return nil, err
		}
	}
	return seen, nil
}

// whole reports whether the user sees all of the answer.
func (c *check) whole() bool { return c.success == nil && c.failure == nil }

// hide takes from an answer what the user may not see.
func (c *check) hide(ctx context.Context, res *pb.TxnResponse) {
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
}

// changed returns the key of a change. It checks that the user may change it when the compares hold.
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
// of it does nothing. What applications want is compared itself, or by the job that it is for. Specs never
// change. Schedulers and agents have other guards, such as the status of a task for its binding.
func (c *check) guarded(k controlplane.Key, key []byte) bool {
	if k.Kind == controlplane.Specs {
		return true
	}
	if !c.ofApplication(k) {
		return len(c.compared) > 0
	}
	_, compared := c.compared[string(key)]
	return compared
}

// ofApplication reports whether applications put keys of a kind.
func (c *check) ofApplication(k controlplane.Key) bool {
	return slices.Contains(c.user.table[k.Kind].Put, writers.Application)
}

// put checks the n-th operation: that readers take the value, and that what it needs is compared.
func (c *check) put(ctx context.Context, n int, put *operation, writes bool) error {
	k, err := c.changed(ctx, put.key, false, writes)
	if err != nil {
		return err
	}
	m := audit.NewMessage(k)
	leased := k.Kind.Leased() || k.Kind == controlplane.Leaders
	switch {
	case m == nil && c.user.Root: // no key of Escher
		return nil
	case m == nil:
		return types.Errorf(types.Invalid, "commit: %s has no value: see docs/keyspace.md", k)
	case put.others:
		return types.Errorf(types.Invalid, "commit: %s: prev_kv, ignore_value and ignore_lease are not served: leave them out", k)
	case c.user.Root: // may do more, but not store what no reader takes
	case put.lease != 0 && !leased:
		return types.Errorf(types.Invalid, "commit: %s: has a lease, whose end would delete it: leave it out", k)
	case put.lease != 0 && !c.user.owns(put.lease):
		return types.Errorf(types.Denied, "commit: %s: lease %x belongs to another subject: grant one", k, put.lease)
	case put.lease == 0 && k.Kind.Leased():
		return types.Errorf(types.Invalid, "commit: %s: has no lease, and would stay for ever: grant one", k)
	case !c.guarded(k, put.key) && k.Kind != controlplane.Tasks:
		return types.Errorf(types.Invalid, "commit: %s: is put, and not compared: compare its revision, 0 if it is not there", k)
	}
	if err := types.Decode(put.value, m); err != nil {
		return types.Errorf(types.Invalid, "commit: %s: %w: readers would not take this value: correct it", k, err)
	}
	if c.user.Root {
		return nil
	}
	return c.content(ctx, n, k, put, m)
}

// delete checks a deletion.
func (c *check) delete(ctx context.Context, d *operation, writes bool) error {
	if len(d.end) > 0 || d.others {
		return types.Errorf(types.Invalid, "commit: %.100q: deletions of ranges, and prev_kv, are not served: delete each key", d.key)
	}
	k, err := c.changed(ctx, d.key, true, writes)
	if err != nil || c.user.Root {
		return err
	}
	if !c.guarded(k, d.key) {
		return types.Errorf(types.Invalid, "commit: %s: is deleted, and not compared: compare its revision", k)
	}
	if k.Kind == controlplane.Tasks || k.Kind == controlplane.Statuses {
		return c.ended(ctx, k)
	}
	if c.user.node != "" { // the socket of a task asks itself
		return nil
	}
	return c.checks(ctx).Deletes(k.String())
}
