package audit

import (
	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/types"
)

// id names a task, job or reservation.
type id struct{ ns, id string }

func (x id) String() string { return x.ns + "/" + x.id }

// state is the cluster decoded from its keys at a revision.
type state struct {
	revision int64
	// leases reports whether to check the leases of keys.
	leases     bool
	nodes      map[string]*node
	pools      map[types.ResourceID]*pool
	everywhere cells[types.ResourceID, types.Resource]
	// onNodes counts the keys of each resource for nodes, or for every node.
	onNodes    map[types.ResourceID]int
	namespaces cells[string, types.Namespace]
	jobs       cells[id, types.Job]
	sessions   cells[id, types.Session]
	policies   cells[id, types.Policies]
	// specs has an entry for every stored spec: its problem, or "".
	specs map[id]string
	// closed is the revision at which the cluster was closed to new tasks; 0 means open.
	closed int64
	// over holds the revisions since which namespaces are over a budget.
	over         map[string]int64
	reservations map[id]*reservation
	tasks        map[id]*task
	// members is the number of stored tasks of each job.
	members map[id]int
	// inPart are the reservations that are being granted in several transactions.
	inPart map[*reservation]struct{}
	// unread are the keys without a known form or readable value, with the reason.
	unread map[string]string
	// touched lists what the last revision touched.
	touched touched
}

// node holds the keys of one node, from the first to the last.
type node struct {
	account
	name    string
	info    cell[types.Node]
	alive   cell[types.Alive]
	cordon  cell[types.Cordon]
	devices cell[types.Devices]
	// own and left are its ephemeral resources, valid in its session or not.
	own  cells[types.ResourceID, types.Resource]
	left cells[types.ResourceID, types.Provided]
	// bindings are the attempts with a binding or a report.
	bindings map[attempt]*binding
	// providers are the bindings that provide a resource here.
	providers map[types.ResourceID]map[*binding]struct{}
}

// pool is a cluster-wide resource.
type pool struct {
	account
	info cell[types.Resource]
}

// attempt names a binding on its node.
type attempt struct {
	task   id
	number int
}

// binding is an attempt with its agent's report.
type binding struct {
	attempt
	node   *node
	of     *task
	info   cell[types.Binding]
	report cell[types.Report]
	stamp  int64
}

func (b *binding) String() string {
	return controlplane.BindingKey(b.node.name, b.task.ns, b.task.id, b.number)[len(controlplane.Root):]
}

// task is a task with its status and its bindings.
type task struct {
	id       id
	info     cell[types.Task]
	status   cell[types.Status]
	bindings []*binding
	// last is its highest attempt so far.
	last  int
	life  life
	stamp int64
}

func (t *task) object() string { return "task " + t.id.String() }

// reservation is a reservation with its grant.
type reservation struct {
	id    id
	info  cell[types.Reservation]
	grant cell[types.Grant]
	stamp int64
}

func (r *reservation) object() string { return "grant " + r.id.String() }

// current reports whether the grant belongs to the present reservation.
func (r *reservation) current() bool {
	return r.info.V != nil && r.grant.V != nil && r.grant.V.Reservation == r.info.Create
}

func newState() *state {
	return &state{
		nodes:        make(map[string]*node),
		pools:        make(map[types.ResourceID]*pool),
		everywhere:   make(cells[types.ResourceID, types.Resource]),
		onNodes:      make(map[types.ResourceID]int),
		namespaces:   make(cells[string, types.Namespace]),
		jobs:         make(cells[id, types.Job]),
		sessions:     make(cells[id, types.Session]),
		policies:     make(cells[id, types.Policies]),
		specs:        make(map[id]string),
		reservations: make(map[id]*reservation),
		tasks:        make(map[id]*task),
		inPart:       make(map[*reservation]struct{}),
		unread:       make(map[string]string),
		members:      make(map[id]int),
		over:         make(map[string]int64),
	}
}

func (s *state) node(name string) *node {
	n := s.nodes[name]
	if n == nil {
		n = &node{
			account:   newAccount("node " + name),
			name:      name,
			own:       make(cells[types.ResourceID, types.Resource]),
			left:      make(cells[types.ResourceID, types.Provided]),
			bindings:  make(map[attempt]*binding),
			providers: make(map[types.ResourceID]map[*binding]struct{}),
		}
		n.account.node = n
		s.nodes[name] = n
	}
	return n
}

func (s *state) pool(rid types.ResourceID) *pool {
	p := s.pools[rid]
	if p == nil {
		p = &pool{account: newAccount("pool " + string(rid))}
		p.rid = rid
		s.pools[rid] = p
	}
	return p
}

func (s *state) task(x id) *task {
	t := s.tasks[x]
	if t == nil {
		t = &task{id: x}
		s.tasks[x] = t
	}
	return t
}

func (s *state) reservation(x id) *reservation {
	r := s.reservations[x]
	if r == nil {
		r = &reservation{id: x}
		s.reservations[x] = r
	}
	return r
}

func (s *state) binding(k controlplane.Key) *binding {
	n := s.node(k.Node)
	a := attempt{id{k.Namespace, k.ID}, k.Attempt}
	b := n.bindings[a]
	if b == nil {
		b = &binding{attempt: a, node: n, of: s.task(a.task)}
		n.bindings[a] = b
		b.of.bindings = append(b.of.bindings, b)
	}
	return b
}

// grantOf returns the grant behind a scoped resource, nil if there is none.
func (s *state) grantOf(rid types.ResourceID) *types.Grant {
	ns, _, name := rid.Split()
	if r := s.reservations[id{ns, name}]; r != nil {
		return r.grant.V
	}
	return nil
}

// session returns the session of the node, 0 while it is not alive.
func (n *node) session() int64 { return n.alive.Create }
