package scheduler

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/types"
)

// Explanation says why a task is where it is, above all why it waits. It is
// computed from a view by the predicates that Schedule decides with; nothing of it
// is stored.
type Explanation struct {
	ID        string      `json:"id"`
	Namespace string      `json:"namespace"`
	Phase     types.Phase `json:"phase"`
	// Summary is one sentence.
	Summary string `json:"summary"`
	// Suggestion says what to do about it, if anything.
	Suggestion string `json:"suggestion,omitempty"`
	// Infeasible tells that no node is large enough, whatever ends.
	Infeasible bool `json:"infeasible,omitempty"`
	// Vectors explain the request vectors, one for each alternative.
	Vectors []VectorExplanation `json:"vectors,omitempty"`
	// Ahead is how many of the same scheduler's queue come first.
	Ahead int `json:"ahead"`
}

// VectorExplanation says why one request vector fits nowhere.
type VectorExplanation struct {
	Requests types.Requests `json:"requests"`
	// AllowedAt is when the alternative may be taken, if that is yet to come.
	AllowedAt *time.Time `json:"allowedAt,omitempty"`
	// Pools are cluster-wide resources of which there is not enough.
	Pools []Missing `json:"pools,omitempty"`
	// Fits are nodes that would take it now.
	Fits []string `json:"fits,omitempty"`
	// Rejected are the nodes by reason, the most frequent first.
	Rejected []Rejection `json:"rejected,omitempty"`
	// Nearest are the nodes that lack least, at most three.
	Nearest []Nearest `json:"nearest,omitempty"`
	// Infeasible names the physical resources that no registered node has
	// enough of together with the others.
	Infeasible []Missing `json:"infeasible,omitempty"`
}

// Missing is a resource of which there is not enough.
type Missing struct {
	Resource types.ResourceID `json:"resource"`
	Want     string           `json:"want"`
	Free     string           `json:"free"`
	Capacity string           `json:"capacity"`
	// Absent tells that the resource does not exist there.
	Absent bool `json:"absent,omitempty"`
}

// Rejection is a reason with the nodes that it holds for.
type Rejection struct {
	Reason string   `json:"reason"`
	Nodes  []string `json:"nodes"`
}

// Nearest is a node with all that it lacks.
type Nearest struct {
	Node    string    `json:"node"`
	Missing []Missing `json:"missing"`
}

// Explain says why the task id is where it is. NotFound: there is no such task.
func Explain(v *cluster.View, id cluster.ID, now time.Time) (Explanation, error) {
	t := v.Tasks[id]
	if t == nil || t.Info.V == nil {
		return Explanation{}, types.Errorf(types.NotFound, "explain task %s: there is none in namespace %s; escher ps -a lists all", id.ID, id.Namespace)
	}
	e := Explanation{ID: id.ID, Namespace: id.Namespace, Phase: t.Phase()}
	switch {
	case e.Phase != types.Pending:
		e.Summary = afterwards(t)
	case !v.Visible(t):
		e.Summary = fmt.Sprintf("It waits for its job %s to be submitted in full.", t.Info.V.Job)
		e.Suggestion = "If whoever submitted the job is gone, the job is removed after a while: submit it again."
	case t.Info.V.Stop != nil:
		e.Summary = "It was stopped while it waited and is about to be cancelled."
	case notLive(v, t.Info.V.Scheduler):
		e.Summary = fmt.Sprintf("It is left to scheduler %s, which is not there.", t.Info.V.Scheduler)
		e.Suggestion = "Start that scheduler, or submit the task without naming one."
	default:
		explainWaiting(v, t, now, &e)
	}
	return e, nil
}

// afterwards says where a task is that does not wait.
func afterwards(t *cluster.Task) string {
	s := t.Status.V
	where := fmt.Sprintf("on node %s, attempt %d", s.Node, s.Attempt)
	if s.Node == "" {
		where = "before it was bound"
	}
	reason := ""
	if s.Reason != "" {
		reason = ": " + s.Reason
	}
	switch s.Phase {
	case types.Bound:
		return fmt.Sprintf("It is bound %s, and its container is being started.", where)
	case types.Running:
		return fmt.Sprintf("It runs %s.", where)
	case types.Failed:
		return fmt.Sprintf("It failed %s, with exit code %d%s.", where, s.ExitCode, reason)
	case types.Cancelled:
		return fmt.Sprintf("It was cancelled %s%s.", where, reason)
	}
	return fmt.Sprintf("It succeeded %s.", where)
}

func notLive(v *cluster.View, scheduler string) bool {
	return scheduler != "" && len(v.Schedulers) > 0 && v.Schedulers[scheduler] == nil
}

func explainWaiting(v *cluster.View, t *cluster.Task, now time.Time, e *Explanation) {
	requests := []types.Requests{t.Info.V.Requests}
	if len(t.Info.V.Alternatives) > 0 {
		requests = nil
		for _, a := range t.Info.V.Alternatives {
			requests = append(requests, t.Info.V.Requests.Plus(a.Requests))
		}
	}
	for i, needs := range Vectors(v, t) {
		x := explainVector(v, t.ID.Namespace, needs)
		x.Requests = requests[i]
		if at := allowedAt(t.Info.V, i); at > now.UnixNano() {
			when := time.Unix(0, at)
			x.AllowedAt = &when
		}
		e.Vectors = append(e.Vectors, x)
	}
	e.Infeasible = !slices.ContainsFunc(e.Vectors, func(x VectorExplanation) bool { return len(x.Infeasible) == 0 })
	e.Ahead = ahead(v, t)
	summarise(v, t, now, e)
}

// ahead counts the pending tasks that come before t.
func ahead(v *cluster.View, t *cluster.Task) int {
	mine := &entry{id: t.ID, priority: t.Info.V.Priority, submitted: t.Info.V.Submitted}
	n := 0
	for _, x := range v.Tasks {
		if x == t || x.Info.V == nil || x.Phase() != types.Pending || !v.Visible(x) {
			continue
		}
		if (&entry{id: x.ID, priority: x.Info.V.Priority, submitted: x.Info.V.Submitted}).before(mine) {
			n++
		}
	}
	return n
}

// explainVector looks at every node with the predicates of the scheduler.
func explainVector(v *cluster.View, ns string, needs []cluster.Need) VectorExplanation {
	return explainVectorIn(v, newDraft(v, controlplane.Limits{}, 1), ns, needs)
}

// explainVectorIn does so for a state as a draft leaves it.
func explainVectorIn(v *cluster.View, d *Draft, ns string, needs []cluster.Need) VectorExplanation {
	x := VectorExplanation{Infeasible: infeasible(v, needs)}
	for _, need := range needs {
		if p := v.Pool(need.ID); p != nil && d.poolFree(p) < need.Amount {
			x.Pools = append(x.Pools, missing(need, d.poolFree(p), p.Capacity(), true))
		}
	}
	reasons := make(map[string][]string)
	for _, n := range sortedNodes(v) {
		lacks := lackingOn(d, n, needs)
		reason := rejection(n, ns, lacks)
		if reason == "" {
			x.Fits = append(x.Fits, n.Name)
			continue
		}
		reasons[reason] = append(reasons[reason], n.Name)
		if n.Eligible() {
			x.Nearest = append(x.Nearest, Nearest{n.Name, lacks})
		}
	}
	x.Rejected = byFrequency(reasons)
	slices.SortStableFunc(x.Nearest, func(a, b Nearest) int { return len(a.Missing) - len(b.Missing) })
	x.Nearest = x.Nearest[:min(3, len(x.Nearest))]
	return x
}

// lackingOn returns all that n has not enough of, which fits stops at the first of.
func lackingOn(d *Draft, n *cluster.Node, needs []cluster.Need) []Missing {
	var out []Missing
	for _, x := range needs {
		if _, ok := d.fits(n, []cluster.Need{x}); ok {
			continue
		}
		free, known := d.free(n, x.ID)
		capacity, _ := d.view.Capacity(n, x.ID)
		out = append(out, missing(x, free, capacity, known))
	}
	return out
}

func missing(x cluster.Need, free, capacity types.Quantity, known bool) Missing {
	return Missing{
		Resource: x.ID, Want: x.Amount.Format(x.ID), Free: free.Format(x.ID), Capacity: capacity.Format(x.ID), Absent: !known,
	}
}

// rejection says why n does not take a vector of which it lacks something; empty if
// it does.
func rejection(n *cluster.Node, ns string, lacks []Missing) string {
	switch {
	case n.Info.V == nil:
		return "not registered"
	case n.Alive.V == nil:
		return "not alive"
	case n.Cordon.V != nil && n.Cordon.V.Reason != "":
		return "cordoned: " + n.Cordon.V.Reason
	case n.Cordon.V != nil:
		return "cordoned"
	case len(lacks) == 0:
		return ""
	}
	var parts []string
	for _, m := range lacks {
		if m.Absent {
			parts = append(parts, fmt.Sprintf("has no %s", m.Resource.In(ns)))
		} else {
			parts = append(parts, fmt.Sprintf("short of %s", m.Resource.In(ns)))
		}
	}
	return strings.Join(parts, ", ")
}

func byFrequency(reasons map[string][]string) []Rejection {
	var out []Rejection
	for reason, nodes := range reasons {
		out = append(out, Rejection{reason, nodes})
	}
	slices.SortFunc(out, func(a, b Rejection) int {
		if len(a.Nodes) != len(b.Nodes) {
			return len(b.Nodes) - len(a.Nodes)
		}
		return strings.Compare(a.Reason, b.Reason)
	})
	return out
}

func sortedNodes(v *cluster.View) []*cluster.Node {
	var out []*cluster.Node
	for _, n := range v.Nodes {
		if n.Info.V != nil {
			out = append(out, n)
		}
	}
	slices.SortFunc(out, func(a, b *cluster.Node) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// infeasible returns the physical needs that keep every registered node, dead and
// cordoned ones included, from ever taking the vector: those of the node that lacks
// fewest. Ephemeral resources may come into being at any time.
func infeasible(v *cluster.View, needs []cluster.Need) []Missing {
	var least []Missing
	nodes := sortedNodes(v)
	for i, n := range nodes {
		var lacks []Missing
		for _, x := range needs {
			if !x.ID.Physical() {
				continue
			}
			if capacity, ok := v.Capacity(n, x.ID); !ok || capacity < x.Amount {
				lacks = append(lacks, missing(x, capacity, capacity, ok))
			}
		}
		if len(lacks) == 0 {
			return nil
		}
		if i == 0 || len(lacks) < len(least) {
			least = lacks
		}
	}
	return least
}
