package cluster

import (
	"hash/maphash"
	"strings"

	"github.com/escher-sched/escher/types"
)

// A cluster has millions of tasks, statuses, bindings and reports, and most values of a kind differ
// only in a name and a time. The view stores those fields for each value, and shares the rest
// between values: see types.OwnOfTask. No reader may change a shared part.

// The shared parts. Their own fields are zero: the fields of the values count.
type (
	sharedTask    = types.Task
	sharedStatus  = types.Status
	sharedBinding = types.Binding
	sharedReport  = types.Report
)

// TaskValue is a read-only types.Task.
type TaskValue struct {
	types.NoMessage
	*sharedTask
	Name, Job string
	Submitted int64
	Index     int
}

// NewTask returns t as a value of a view, without sharing.
func NewTask(t *types.Task) *TaskValue {
	return &TaskValue{sharedTask: t, Name: t.Name, Job: t.Job, Submitted: t.Submitted, Index: t.Index}
}

// Full returns a complete copy; nil for nil.
func (v *TaskValue) Full() *types.Task {
	if v == nil {
		return nil
	}
	t := *v.sharedTask
	t.Name, t.Job, t.Submitted, t.Index = v.Name, v.Job, v.Submitted, v.Index
	return &t
}

// StatusValue is a read-only types.Status.
type StatusValue struct {
	types.NoMessage
	*sharedStatus
	Node                  string
	Bound, Started, Ended int64
	Used                  types.Used
}

// Full returns a complete copy; nil for nil.
func (v *StatusValue) Full() *types.Status {
	if v == nil {
		return nil
	}
	s := *v.sharedStatus
	s.Node, s.Bound, s.Started, s.Ended, s.Used = v.Node, v.Bound, v.Started, v.Ended, v.Used
	return &s
}

// BindingValue is a read-only types.Binding.
type BindingValue struct {
	types.NoMessage
	*sharedBinding
	Session, Bound int64
}

// Full returns a complete copy; nil for nil.
func (v *BindingValue) Full() *types.Binding {
	if v == nil {
		return nil
	}
	b := *v.sharedBinding
	b.Session, b.Bound = v.Session, v.Bound
	return &b
}

// ReportValue is a read-only types.Report.
type ReportValue struct {
	types.NoMessage
	*sharedReport
	Binding, Started, Ended int64
	Used                    types.Used
}

// Full returns a complete copy; nil for nil.
func (v *ReportValue) Full() *types.Report {
	if v == nil {
		return nil
	}
	r := *v.sharedReport
	r.Binding, r.Started, r.Ended, r.Used = v.Binding, v.Started, v.Ended, v.Used
	return &r
}

// maxKnown bounds the shared parts kept of each kind. Forgotten ones that are in use stay in use;
// later equal values get another copy.
const maxKnown = 1 << 14

// common holds the decoded shared parts of values of one kind, by their encoding.
type common[T any, P message[T]] struct {
	known map[string]*T
	// once holds the hashes of parts seen once, because most unusual ones never come again.
	once map[uint64]struct{}
	seed maphash.Seed
	// trim makes a new part share its strings.
	trim func(*T)
}

func newCommon[T any, P message[T]](trim func(*T)) *common[T, P] {
	return &common[T, P]{known: make(map[string]*T), once: make(map[uint64]struct{}), seed: maphash.MakeSeed(), trim: trim}
}

// get returns the decoded form of rest. With news it keeps a new one that may come again.
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

// again reports whether an unknown part was seen before.
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

// texts stores equal strings once.
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

// decoder decodes the kinds of values that are very numerous.
type decoder struct {
	tasks    *common[types.Task, *types.Task]
	statuses *common[types.Status, *types.Status]
	bindings *common[types.Binding, *types.Binding]
	reports  *common[types.Report, *types.Report]
	rest     []byte
}

// newDecoder returns a decoder. Even tasks that differ otherwise share the digests of specs and
// images.
func newDecoder() decoder {
	known := make(texts)
	return decoder{
		tasks:    newCommon[types.Task, *types.Task](func(t *types.Task) { known.share(&t.Spec) }),
		statuses: newCommon[types.Status, *types.Status](func(s *types.Status) { known.share(&s.Image) }),
		bindings: newCommon[types.Binding, *types.Binding](func(b *types.Binding) { known.share(&b.Spec); known.share(&b.Image) }),
		reports:  newCommon[types.Report, *types.Report](func(r *types.Report) { known.share(&r.Image) }),
	}
}

// divider is the own part of a value.
type divider interface {
	Divide(value, rest []byte) ([]byte, error)
	Validate() error
}

// divide divides a value and returns its shared part.
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

// readTask decodes a task. news reports whether it is new or was read before.
func (v *View) readTask(id ID, value []byte, news bool) (*TaskValue, error) {
	var own types.OwnOfTask
	shared, err := divide(&v.decode, v.decode.tasks, &own, value, news)
	if err != nil {
		return nil, err
	}
	t := &TaskValue{sharedTask: shared, Submitted: own.Submitted, Index: int(own.Index)}
	// An id usually begins with the name.
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
	s := &StatusValue{sharedStatus: shared, Bound: own.Bound, Started: own.Started, Ended: own.Ended, Used: own.Used}
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
	return &ReportValue{sharedReport: shared, Binding: own.Binding, Started: own.Started, Ended: own.Ended, Used: own.Used}, nil
}
