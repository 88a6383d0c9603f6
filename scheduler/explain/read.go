package explain

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/controlplane/why"
	"github.com/escher-sched/escher/scheduler"
	"github.com/escher-sched/escher/types"
)

// Subject is the object to explain.
type Subject struct {
	// Kind is task, job, reservation or node.
	Kind why.Kind
	// Namespace is the namespace of the object. For a node, it is the one that names are relative
	// to.
	Namespace string
	ID        string
}

// Why explains a subject from a store. It reads the relevant keys at one revision: the nodes with
// their allocated amounts, the subject, the resources it requests, and the bindings of the nearest
// nodes. There may be millions of tasks and bindings. Facts that need all of them, such as the
// position in the queue, are reported only if they are few. The returned view contains the keys
// read. NotFound: there is no such subject.
func Why(ctx context.Context, store controlplane.Store, of Subject, now time.Time) (why.Explanation, *cluster.View, error) {
	x, v, err := WhyEach(ctx, store, []Subject{of}, now)
	if err != nil {
		return why.Explanation{}, v, err
	}
	return x[0], v, nil
}

// WhyEach is Why for several subjects, at one revision, in their order.
func WhyEach(ctx context.Context, store controlplane.Store, of []Subject, now time.Time) ([]why.Explanation, *cluster.View, error) {
	const tries = 3
	for try := 1; ; try++ {
		x, v, err := whyOnce(ctx, store, of, now)
		if !types.Is(err, types.Compacted) || try == tries {
			return x, v, err
		}
	}
}

func whyOnce(ctx context.Context, store controlplane.Store, of []Subject, now time.Time) ([]why.Explanation, *cluster.View, error) {
	r := &reader{ctx: ctx, store: store, view: cluster.New(), ranges: make(map[string]bool), read: make(map[string]struct{})}
	r.begin()
	out := make([]why.Explanation, len(of))
	awaited := make(map[cluster.ID]*why.Explanation)
	for i, subject := range of {
		e := newExplainer(r.view, now)
		e.read, e.awaited = r, awaited
		x, err := e.subject(subject)
		if r.err != nil {
			return nil, nil, types.Errorf(types.ClassOf(r.err), "explain %s %s: %w", subject.Kind, subject.ID, r.err)
		}
		if err != nil {
			return nil, r.view, err
		}
		for _, text := range r.notes() {
			note(&x, "%s", text)
		}
		out[i] = x
	}
	r.view.Reached(r.revision)
	return out, r.view, nil
}

func (e *explainer) subject(of Subject) (why.Explanation, error) {
	id := cluster.ID{Namespace: of.Namespace, ID: of.ID}
	var x why.Explanation
	var err error
	switch of.Kind {
	case why.KindReservation:
		return e.reservation(id)
	case why.KindNode:
		return e.node(of.Namespace, of.ID)
	case why.KindJob:
		x, err = e.job(id)
	default:
		x, err = e.task(id)
	}
	if err == nil {
		e.behind(&x)
	}
	return x, err
}

// reader reads what an explanation needs into its view, each key once and all at one revision.
// After an error it reads nothing more. A nil reader stands for a complete view.
type reader struct {
	ctx      context.Context
	store    controlplane.Store
	view     *cluster.View
	revision int64
	err      error
	// ranges are the ranges read; false means too large. read are the keys read one by one. keys is
	// the total number of keys read.
	ranges map[string]bool
	read   map[string]struct{}
	keys   int
	// unread are the keys that cannot be decoded. skipped are notes on what is omitted because it
	// would take too many reads.
	unread, skipped []string
}

// readAtMost bounds the keys of an optional range, getAtMost the keys read one by one.
const (
	readAtMost = 20_000
	getAtMost  = 1000
)

// BaseKinds are the kinds of keys that every explanation needs. cluster.View.Fork copies them.
func BaseKinds() []controlplane.Kind {
	return []controlplane.Kind{
		controlplane.Nodes, controlplane.Alive, controlplane.Cordons, controlplane.Devices, controlplane.Allocated,
		controlplane.Namespaces, controlplane.Schedulers, controlplane.Leaders, controlplane.System,
	}
}

// Knows reports whether the view of each explanation has a range of keys in full.
func Knows(prefix string) bool {
	return slices.ContainsFunc(BaseKinds(), func(k controlplane.Kind) bool { return controlplane.Prefix(k) == prefix })
}

// begin reads the keys that every explanation needs. With 10,000 nodes there are 50,000: a store that follows
// them has them at hand, such as mirror.Store.
func (r *reader) begin() {
	var known *cluster.View
	if known, r.err = cluster.ForkOf(r.ctx, r.store); known != nil {
		r.view, r.revision = known, known.Revision
	}
	for _, kind := range BaseKinds() {
		if prefix := controlplane.Prefix(kind); known != nil {
			r.ranges[prefix] = true
		} else {
			r.all(prefix)
		}
	}
}

// all reads a range.
func (r *reader) all(prefix string) { r.list(prefix, 0) }

// some reads a range unless it is too large, and reports whether it did.
func (r *reader) some(prefix string) bool { return r.list(prefix, readAtMost) }

// list reads a range of at most that many keys; 0 means no bound. It reports whether it read the
// whole range.
func (r *reader) list(prefix string, most int) bool {
	if all, ok := r.ranges[prefix]; ok && (all || most > 0) || r.err != nil {
		return all
	}
	if r.covers(prefix) {
		return true
	}
	opts := controlplane.ListOptions{Prefix: prefix, Revision: r.revision}
	var kvs []controlplane.KV
	if most == 0 {
		kvs, r.revision, r.err = controlplane.ListAll(r.ctx, r.store, opts)
	} else {
		var page controlplane.Page
		opts.Limit = most + 1
		page, r.err = r.store.List(r.ctx, opts)
		if r.err == nil && page.More {
			r.revision, r.ranges[prefix] = page.Revision, false
			return false
		}
		kvs, r.revision = page.KVs, page.Revision
	}
	r.take(kvs)
	r.ranges[prefix] = r.err == nil
	return r.ranges[prefix]
}

// covers reports whether a range that was read contains a key or range.
func (r *reader) covers(key string) bool {
	for i := len(controlplane.Root); i < len(key); i++ {
		if key[i] == '/' && r.ranges[key[:i+1]] {
			return true
		}
	}
	return false
}

// one reads a key, unless too many were read one by one.
func (r *reader) one(key string) {
	if _, ok := r.read[key]; ok || len(r.read) >= getAtMost || r.err != nil || r.covers(key) {
		return
	}
	r.read[key] = struct{}{}
	var page controlplane.Page
	if page, r.err = r.store.List(r.ctx, controlplane.ListOptions{Key: key, Revision: r.revision}); r.err == nil {
		r.take(page.KVs)
	}
}

// take applies keys to the view. An undecodable key counts as absent.
func (r *reader) take(kvs []controlplane.KV) {
	r.keys += len(kvs)
	for _, kv := range kvs {
		if _, _, err := r.view.Apply(controlplane.Event{KV: kv}); err != nil {
			r.unread = append(r.unread, kv.Key)
		}
	}
}

// skip records a note on what is omitted because it would take too many reads.
func (r *reader) skip(what string) {
	if !slices.Contains(r.skipped, what) {
		r.skipped = append(r.skipped, what)
	}
}

// notes returns the notes on what was skipped or unreadable.
func (r *reader) notes() []string {
	out := r.skipped
	if len(r.unread) > 0 {
		slices.Sort(r.unread)
		out = append(out, fmt.Sprintf("What is stored as %s cannot be read by this version, and counts as absent.", list(slices.Compact(r.unread))))
	}
	return out
}

// task reads a task with its binding and its grant.
func (r *reader) task(id cluster.ID) {
	if r == nil {
		return
	}
	r.one(controlplane.TaskKey(id.Namespace, id.ID))
	r.one(controlplane.StatusKey(id.Namespace, id.ID))
	t := r.view.Task(id)
	if t == nil || t.Info.V == nil {
		return
	}
	if t.Info.V.Job != "" {
		r.one(controlplane.JobKey(id.Namespace, t.Info.V.Job))
	}
	if t.Info.V.Accumulate {
		r.reservation(id)
	}
	if s := t.Status.V; s != nil && s.Phase.Held() {
		r.one(controlplane.BindingKey(s.Node, id.Namespace, id.ID, s.Attempt))
		r.one(controlplane.ReportKey(s.Node, id.Namespace, id.ID, s.Attempt))
	}
}

// job reads a job with all tasks of its namespace, to find its members.
func (r *reader) job(id cluster.ID) {
	if r == nil {
		return
	}
	r.one(controlplane.JobKey(id.Namespace, id.ID))
	r.all(controlplane.Prefix(controlplane.Tasks, id.Namespace))
	r.all(controlplane.Prefix(controlplane.Statuses, id.Namespace))
}

// tasks reads all tasks of a namespace, unless there are too many.
func (r *reader) tasks(ns string) bool {
	return r.whole(controlplane.Prefix(controlplane.Tasks, ns), controlplane.Prefix(controlplane.Statuses, ns), controlplane.Prefix(controlplane.Jobs, ns))
}

// waiting reads all tasks and reservations, unless there are too many.
func (r *reader) waiting() bool {
	ok := r.whole(controlplane.Prefix(controlplane.Tasks), controlplane.Prefix(controlplane.Statuses), controlplane.Prefix(controlplane.Jobs)) && r.grants()
	if !ok && r.err == nil {
		r.skip(fmt.Sprintf("There are more than %d tasks or reservations: the others that wait are not looked at.", readAtMost))
	}
	return ok
}

// bindings reads all bindings, unless there are too many.
func (r *reader) bindings() bool {
	ok := r.whole(controlplane.Prefix(controlplane.Bindings), controlplane.Prefix(controlplane.Tasks), controlplane.Prefix(controlplane.Statuses))
	if !ok && r.err == nil {
		r.skip(fmt.Sprintf("There are more than %d tasks: which of them hold something of the cluster-wide resource is not looked at.", readAtMost))
	}
	return ok
}

// grants reads all reservations and grants, unless there are too many.
func (r *reader) grants() bool {
	return r.whole(controlplane.Prefix(controlplane.Reservations), controlplane.Prefix(controlplane.Grants))
}

// whole reads ranges, and reports whether it read them all.
func (r *reader) whole(prefixes ...string) bool {
	if r == nil {
		return true
	}
	for _, prefix := range prefixes {
		if !r.some(prefix) {
			return false
		}
	}
	return true
}

// reservation reads a reservation and its grant.
func (r *reader) reservation(id cluster.ID) {
	if r == nil {
		return
	}
	r.one(controlplane.ReservationKey(id.Namespace, id.ID))
	r.one(controlplane.GrantKey(id.Namespace, id.ID))
}

// bound reads the bindings of a node, with their tasks.
func (r *reader) bound(n *cluster.Node) {
	if r == nil || n == nil {
		return
	}
	r.all(controlplane.Prefix(controlplane.Bindings, n.Name))
	r.all(controlplane.Prefix(controlplane.Reports, n.Name))
	for _, b := range scheduler.SortedBindings(n) {
		r.one(controlplane.TaskKey(b.Task.ID.Namespace, b.Task.ID.ID))
		r.one(controlplane.StatusKey(b.Task.ID.Namespace, b.Task.ID.ID))
	}
}

// needs reads the locations and providers of the requested resources.
func (r *reader) needs(needs []cluster.Need) {
	if r == nil {
		return
	}
	for _, x := range needs {
		ns, name, reservation := x.ID.Split()
		switch {
		case ns == "":
		case reservation != "":
			r.reservation(cluster.ID{Namespace: ns, ID: reservation})
		default:
			r.all(controlplane.Prefix(controlplane.Resources, ns, name))
			r.all(controlplane.Prefix(controlplane.Provided, ns, name))
			if r.view.Pool(x.ID) == nil {
				r.providers(ns)
			}
		}
	}
}

// providers reads the bindings of the tasks of a namespace that provide something.
func (r *reader) providers(ns string) {
	if !r.tasks(ns) {
		r.skip(fmt.Sprintf("Namespace %s has more than %d tasks: what they provide is not looked at.", ns, readAtMost))
		return
	}
	for t := range r.view.Tasks() {
		if t.ID.Namespace == ns && t.Info.V != nil && len(t.Info.V.Provides) > 0 {
			r.task(t.ID)
		}
	}
}

// resources reads all ephemeral resources, unless there are too many.
func (r *reader) resources() {
	if !r.whole(controlplane.Prefix(controlplane.Resources), controlplane.Prefix(controlplane.Provided)) && r.err == nil {
		r.skip(fmt.Sprintf("There are more than %d ephemeral resources: they are not looked at.", readAtMost))
	}
}
