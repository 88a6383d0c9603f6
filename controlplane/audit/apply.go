package audit

import (
	"fmt"
	"slices"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/types"
)

// touched lists what a revision touched, each object once.
type touched struct {
	tasks        []*task
	bindings     []*binding
	reservations []*reservation
	accounts     []*account
	names        []types.ResourceID
	unread       []string
	// jobs are deleted jobs.
	jobs []id
	// written are jobs that were put, specs deleted specs.
	written []id
	specs   []id
}

// begin starts a revision.
func (s *state) begin(revision int64) {
	s.revision = revision
	s.touched = touched{}
}

// apply applies one change of the present revision.
func (s *state) apply(e controlplane.Event) {
	delete(s.unread, e.Key)
	k, ok := controlplane.Parse(e.Key)
	err := error(nil)
	if ok {
		err = s.update(k, e)
		if err == nil && s.leases && !e.Delete && e.Lease == 0 && k.Kind.Leased() {
			err = fmt.Errorf("it has no lease, so nothing ends it")
		}
	} else if !e.Delete {
		err = fmt.Errorf("the key has no known form")
	}
	if err != nil {
		s.unread[e.Key] = err.Error()
		s.touched.unread = append(s.touched.unread, e.Key)
	}
}

func (s *state) update(k controlplane.Key, e controlplane.Event) error {
	switch k.Kind {
	case controlplane.Nodes:
		return update(&s.node(k.Node).info, e)
	case controlplane.Devices:
		n := s.node(k.Node)
		s.touchHolders(n)
		return update(&n.devices, e)
	case controlplane.Alive:
		return update(&s.node(k.Node).alive, e)
	case controlplane.Cordons:
		return update(&s.node(k.Node).cordon, e)
	case controlplane.Namespaces:
		return updateIn(s.namespaces, k.Namespace, e)
	case controlplane.Resources:
		return s.updateResource(k, e)
	case controlplane.Provided:
		return updateIn(s.node(k.Node).left, types.Resolve(k.Namespace, k.Name), e)
	case controlplane.Jobs:
		if e.Delete {
			s.touched.jobs = append(s.touched.jobs, id{k.Namespace, k.ID})
		} else {
			s.touched.written = append(s.touched.written, id{k.Namespace, k.ID})
		}
		return updateIn(s.jobs, id{k.Namespace, k.ID}, e)
	case controlplane.Sessions:
		return updateIn(s.sessions, id{k.Namespace, k.ID}, e)
	case controlplane.Policies:
		return updateIn(s.policies, id{k.Namespace, k.ID}, e)
	case controlplane.Tasks, controlplane.Statuses:
		return s.updateTask(k, e)
	case controlplane.Bindings:
		return s.updateBinding(k, e)
	case controlplane.Reports:
		b := s.binding(k)
		s.touchBinding(b)
		b.of.life.writes++
		return update(&b.report, e)
	case controlplane.Reservations:
		r := s.reservation(id{k.Namespace, k.ID})
		s.touchReservation(r)
		return update(&r.info, e)
	case controlplane.Grants:
		return s.updateGrant(k, e)
	case controlplane.Allocated:
		a := s.accountOf(k)
		s.touchAccount(a)
		return update(&a.allocated, e)
	}
	if k.Kind == controlplane.Specs {
		return s.updateSpec(k, e)
	}
	switch {
	case e.Key == controlplane.AdmissionKey():
		s.updateAdmission(e)
	case k.Kind == controlplane.Admissions:
		s.updateBudget(k.Namespace, e)
	}
	return readable(k, e)
}

// readable tries to decode a value that no other validator reads.
func readable(k controlplane.Key, e controlplane.Event) error {
	m := NewMessage(k)
	switch {
	case e.Delete:
		return nil
	case m == nil:
		return fmt.Errorf("the key has no known form")
	}
	return types.Decode(e.Value, m)
}

func (s *state) accountOf(k controlplane.Key) *account {
	if k.Where != "" {
		return &s.pool(types.Resolve(k.Namespace, k.Name)).account
	}
	return &s.node(k.Node).account
}

func (s *state) updateResource(k controlplane.Key, e controlplane.Event) error {
	rid := types.Resolve(k.Namespace, k.Name)
	s.touched.names = append(s.touched.names, rid)
	if k.Where == types.ClusterWide {
		p := s.pool(rid)
		s.touchAccount(&p.account)
		return update(&p.info, e)
	}
	at := s.everywhere
	if k.Where != types.EveryNode {
		at = s.node(k.Where).own
	}
	before := at[rid] != nil
	err := updateIn(at, rid, e)
	switch after := at[rid] != nil; {
	case after && !before:
		s.onNodes[rid]++
	case before && !after:
		if s.onNodes[rid]--; s.onNodes[rid] == 0 {
			delete(s.onNodes, rid)
		}
	}
	return err
}

func (s *state) updateTask(k controlplane.Key, e controlplane.Event) error {
	t := s.task(id{k.Namespace, k.ID})
	s.touchTask(t)
	t.life.writes++
	if k.Kind == controlplane.Statuses {
		return update(&t.status, e)
	}
	s.countMember(t, -1)
	err := update(&t.info, e)
	s.countMember(t, 1)
	return err
}

// countMember adds n to the members of a task's job.
func (s *state) countMember(t *task, n int) {
	if t.info.V == nil || t.info.V.Job == "" {
		return
	}
	job := id{t.id.ns, t.info.V.Job}
	if s.members[job] += n; s.members[job] == 0 {
		delete(s.members, job)
	}
}

func (s *state) updateBinding(k controlplane.Key, e controlplane.Event) error {
	b := s.binding(k)
	s.touchBinding(b)
	b.of.life.writes++
	s.count(b, -1)
	err := update(&b.info, e)
	s.count(b, 1)
	return err
}

func (s *state) updateGrant(k controlplane.Key, e controlplane.Event) error {
	r := s.reservation(id{k.Namespace, k.ID})
	s.touchReservation(r)
	s.countGrant(r, -1)
	err := update(&r.grant, e)
	s.countGrant(r, 1)
	delete(s.inPart, r)
	if r.grant.V != nil && r.grant.V.Phase == types.Granting {
		s.inPart[r] = struct{}{}
	}
	return err
}

func (s *state) touchTask(t *task) {
	if t.stamp != s.revision {
		t.stamp = s.revision
		s.touched.tasks = append(s.touched.tasks, t)
	}
}

func (s *state) touchBinding(b *binding) {
	s.touchTask(b.of)
	if b.stamp != s.revision {
		b.stamp = s.revision
		s.touched.bindings = append(s.touched.bindings, b)
	}
}

// touchHolders touches the holders on a node, whose devices have changed.
func (s *state) touchHolders(n *node) {
	for _, b := range n.bindings {
		s.touchBinding(b)
	}
	for _, r := range s.reservations {
		if r.grant.V != nil && r.grant.V.On(n.name) != nil {
			s.touchReservation(r)
		}
	}
}

func (s *state) touchReservation(r *reservation) {
	if r.stamp != s.revision {
		r.stamp = s.revision
		s.touched.reservations = append(s.touched.reservations, r)
	}
}

func (s *state) touchAccount(a *account) {
	if a.stamp != s.revision {
		a.stamp = s.revision
		s.touched.accounts = append(s.touched.accounts, a)
	}
}

// end drops objects that the revision left without keys.
func (s *state) end() {
	for _, b := range s.touched.bindings {
		if b.info.V == nil && b.report.V == nil {
			delete(b.node.bindings, b.attempt)
			b.of.bindings = slices.DeleteFunc(b.of.bindings, func(x *binding) bool { return x == b })
		}
	}
	for _, t := range s.touched.tasks {
		if t.info.V == nil && t.status.V == nil && len(t.bindings) == 0 {
			delete(s.tasks, t.id)
		}
	}
	for _, r := range s.touched.reservations {
		if r.info.V == nil && r.grant.V == nil {
			delete(s.reservations, r.id)
		}
	}
	for _, a := range s.touched.accounts {
		if a.node == nil && a.allocated.V == nil && len(a.sums)+len(a.releasing) == 0 && !s.pooled(a.rid) {
			delete(s.pools, a.rid)
		}
	}
}
