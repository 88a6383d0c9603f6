package cluster

import (
	"hash/maphash"
	"strings"

	"github.com/escher-sched/escher/types"
)

// A cluster has millions of tasks, statuses, bindings and reports, and most of each are
// alike but for a name and a time. So the view keeps of them what is their own, and has them share the
// rest, which nobody may change: see types.OwnOfTask.

// The parts that are shared. Their own fields are zero: those of the values count.
type (
	sharedTask    = types.Task
	sharedStatus  = types.Status
	sharedBinding = types.Binding
	sharedReport  = types.Report
)

// TaskValue is a types.Task, not to be changed.
type TaskValue struct {
	types.NoMessage
	*sharedTask
	Name, Job string
	Submitted int64
}

// NewTask returns t as a view has it. The view's own are not made by this.
func NewTask(t *types.Task) *TaskValue {
	return &TaskValue{sharedTask: t, Name: t.Name, Job: t.Job, Submitted: t.Submitted}
}

// Full returns a copy in one piece, of nil nil.
func (v *TaskValue) Full() *types.Task {
	if v == nil {
		return nil
	}
	t := *v.sharedTask
	t.Name, t.Job, t.Submitted = v.Name, v.Job, v.Submitted
	return &t
}

// StatusValue is a types.Status, not to be changed.
type StatusValue struct {
	types.NoMessage
	*sharedStatus
	Node                  string
	Bound, Started, Ended int64
}

// Full returns a copy in one piece, of nil nil.
func (v *StatusValue) Full() *types.Status {
	if v == nil {
		return nil
	}
	s := *v.sharedStatus
	s.Node, s.Bound, s.Started, s.Ended = v.Node, v.Bound, v.Started, v.Ended
	return &s
}

// BindingValue is a types.Binding, not to be changed.
type BindingValue struct {
	types.NoMessage
	*sharedBinding
	Session, Bound int64
}

// Full returns a copy in one piece, of nil nil.
func (v *BindingValue) Full() *types.Binding {
	if v == nil {
		return nil
	}
	b := *v.sharedBinding
	b.Session, b.Bound = v.Session, v.Bound
	return &b
}

// ReportValue is a types.Report, not to be changed.
type ReportValue struct {
	types.NoMessage
	*sharedReport
	Binding, Started, Ended int64
}

// Full returns a copy in one piece, of nil nil.
func (v *ReportValue) Full() *types.Report {
	if v == nil {
		return nil
	}
	r := *v.sharedReport
	r.Binding, r.Started, r.Ended = v.Binding, v.Started, v.Ended
	return &r
}

// maxKnown is how much of a kind is kept to be shared. What is in use stays in use when it is
// forgotten; what is alike and comes later has another copy.
const maxKnown = 1 << 14

// common are the decoded rests of values of one kind, by their encoding.
type common[T any, P message[T]] struct {
	known map[string]*T
	// once are the hashes of what was met once: most of what is unlike all others never
	// comes again.
	once map[uint64]struct{}
	seed maphash.Seed
	// trim has a new one share what it can.
	trim func(*T)
}

func newCommon[T any, P message[T]](trim func(*T)) *common[T, P] {
	return &common[T, P]{known: make(map[string]*T), once: make(map[uint64]struct{}), seed: maphash.MakeSeed(), trim: trim}
}

// get returns what rest decodes to. What is news is kept if it may come again.
func (c *common[T, P]) get(rest []byte, news bool) (*T, error) {
	if m := c.known[string(rest)]; m != nil {
		return m, nil
	}
	m := new(T)
	if err := types.Decode(rest, P(m)); err != nil {
		return nil, err
	}
	c.trim(m)
	if news && c.again(rest) {
		if len(c.known) >= maxKnown {
			clear(c.known)
		}
		c.known[string(rest)] = m
	}
	return m, nil
}

// again reports whether a rest that is not known was met before.
func (c *common[T, P]) again(rest []byte) bool {
	h := maphash.Bytes(c.seed, rest)
	if _, ok := c.once[h]; ok {
		delete(c.once, h)
		return true
	}
	if len(c.once) >= maxKnown {
		clear(c.once)
	}
	c.once[h] = struct{}{}
	return false
}

// texts are strings, each kept once.
type texts map[string]string

func (t texts) share(s *string) {
	same, ok := t[*s]
	if !ok {
		if len(t) >= maxKnown {
			clear(t)
		}
		t[*s], same = *s, *s
	}
	*s = same
}

// decoder decodes what there is very much of.
type decoder struct {
	tasks    *common[types.Task, *types.Task]
	statuses *common[types.Status, *types.Status]
	bindings *common[types.Binding, *types.Binding]
	reports  *common[types.Report, *types.Report]
	rest     []byte
}

// newDecoder returns a decoder. Also tasks of which each is another one have the specs
// of their jobs, and run the images of those.
func newDecoder() decoder {
	known := make(texts)
	return decoder{
		tasks:    newCommon[types.Task, *types.Task](func(t *types.Task) { known.share(&t.Spec) }),
		statuses: newCommon[types.Status, *types.Status](func(s *types.Status) { known.share(&s.Image) }),
		bindings: newCommon[types.Binding, *types.Binding](func(b *types.Binding) { known.share(&b.Spec); known.share(&b.Image) }),
		reports:  newCommon[types.Report, *types.Report](func(r *types.Report) { known.share(&r.Image) }),
	}
}

// divider is what a value has of its own.
type divider interface {
	Divide(value, rest []byte) ([]byte, error)
	Validate() error
}

// divide divides a value and returns what it shares with others.
func divide[T any, P message[T]](d *decoder, c *common[T, P], own divider, value []byte, news bool) (*T, error) {
	rest, err := own.Divide(value, d.rest[:0])
	if err != nil {
		return nil, err
	}
	d.rest = rest
	if err := own.Validate(); err != nil {
		return nil, err
	}
	return c.get(rest, news)
}

// readTask decodes the task of an id, which is news or was read before.
func (v *View) readTask(id ID, value []byte, news bool) (*TaskValue, error) {
	var own types.OwnOfTask
	shared, err := divide(&v.decode, v.decode.tasks, &own, value, news)
	if err != nil {
		return nil, err
	}
	t := &TaskValue{sharedTask: shared, Submitted: own.Submitted}
	// An id begins with the name, as a rule.
	if n := len(own.Name); n <= len(id.ID) && id.ID[:n] == string(own.Name) {
		t.Name = id.ID[:n]
	} else {
		t.Name = string(own.Name)
	}
	if t.Job = v.jobs[string(own.Job)]; t.Job == "" {
		t.Job = string(own.Job)
	}
	return t, nil
}

func (v *View) readStatus(value []byte) (*StatusValue, error) {
	var own types.OwnOfStatus
	shared, err := divide(&v.decode, v.decode.statuses, &own, value, true)
	if err != nil {
		return nil, err
	}
	s := &StatusValue{sharedStatus: shared, Bound: own.Bound, Started: own.Started, Ended: own.Ended}
	if n := v.Nodes[string(own.Node)]; n != nil {
		s.Node = n.Name
	} else {
		s.Node = strings.Clone(string(own.Node))
	}
	return s, nil
}

func (v *View) readBinding(value []byte) (*BindingValue, error) {
	var own types.OwnOfBinding
	shared, err := divide(&v.decode, v.decode.bindings, &own, value, true)
	if err != nil {
		return nil, err
	}
	return &BindingValue{sharedBinding: shared, Session: own.Session, Bound: own.Bound}, nil
}

func (v *View) readReport(value []byte) (*ReportValue, error) {
	var own types.OwnOfReport
	shared, err := divide(&v.decode, v.decode.reports, &own, value, true)
	if err != nil {
		return nil, err
	}
	return &ReportValue{sharedReport: shared, Binding: own.Binding, Started: own.Started, Ended: own.Ended}, nil
}
