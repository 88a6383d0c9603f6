package keep

import (
	"context"
	"maps"
	"time"

	"go.uber.org/zap"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/heap"
	"github.com/escher-sched/escher/controlplane/supervise"
	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/types/measured"
)

// Measure asks a node for what it measures. since is the start of the history in the answer; zero means
// no history. It returns before ctx is done, or soon after.
type Measure func(ctx context.Context, node string, since time.Time) (measured.Answer, error)

const (
	// measureGap is the least time between the beginnings of two questions: at most 1,000 nodes a second
	// are asked, whatever policies want.
	measureGap = time.Millisecond
	// measureAnswer bounds the wait for an answer. With measureGap it bounds the questions under way,
	// so nothing else does: a node that does not answer delays no other one.
	measureAnswer = 3 * time.Second
	// measureLeast is the least time between two questions to a node, measureMost the longest: later, an
	// answer would be too old.
	measureLeast = time.Second
	measureMost  = time.Minute
	// measureHistory is how far back the first answer of a node reaches.
	measureHistory = 5 * time.Minute
)

// meter asks the nodes whose usage policies need.
type meter struct {
	ask Measure
	// wants has what each policy wants.
	wants map[*managedPolicy]map[string]time.Duration
	nodes map[string]*asked
	queue heap.Heap[*asked]
	// usage has the last answers. A new answer replaces the value of a node.
	usage map[string]*esl.NodeUsage
	// began is when the last question began; busy counts the questions under way.
	began   time.Time
	busy    int
	answers chan answer
}

// asked is a node that is asked from time to time.
type asked struct {
	name  string
	every time.Duration
	// due is when to ask next; place is its index in the queue, and busy reports that it has left the
	// queue until it answers.
	due      time.Time
	place    int
	busy     bool
	failures int
}

// Before reports whether n is asked before another node.
func (n *asked) Before(other *asked) bool { return n.due.Before(other.due) }

// Placed records the index of n in the queue.
func (n *asked) Placed(at int) { n.place = at }

// answer is the answer of a node, or why there is none.
type answer struct {
	node     *asked
	received time.Time
	said     measured.Answer
	err      error
}

func newMeter(ask Measure) meter {
	return meter{
		ask: ask, wants: make(map[*managedPolicy]map[string]time.Duration), nodes: make(map[string]*asked),
		usage: make(map[string]*esl.NodeUsage), answers: make(chan answer),
	}
}

// want replaces what a policy wants; nil means nothing.
func (m *meter) want(p *managedPolicy, nodes map[string]time.Duration, now time.Time) {
	if maps.Equal(m.wants[p], nodes) || m.ask == nil {
		return
	}
	if delete(m.wants, p); len(nodes) > 0 {
		m.wants[p] = maps.Clone(nodes) // the policy may change its map
	}
	all := make(map[string]time.Duration, len(nodes))
	for _, wants := range m.wants {
		for name, every := range wants {
			if every = min(max(every, measureLeast), measureMost); all[name] == 0 || every < all[name] {
				all[name] = every
			}
		}
	}
	for name, n := range m.nodes {
		if all[name] == 0 {
			m.forget(n)
		}
	}
	for name, every := range all {
		m.node(name, every, now)
	}
}

// node asks a node that often from now on.
func (m *meter) node(name string, every time.Duration, now time.Time) {
	n := m.nodes[name]
	switch {
	case n == nil:
		n = &asked{name: name, every: every, due: now}
		m.nodes[name] = n
		m.queue.Push(n)
	case n.every != every:
		n.every = every
		if soon := now.Add(every); !n.busy && n.failures == 0 && soon.Before(n.due) {
			n.due = soon
			m.queue.Fix(n.place)
		}
	}
}

// forget asks a node no longer.
func (m *meter) forget(n *asked) {
	delete(m.nodes, n.name)
	delete(m.usage, n.name)
	if !n.busy {
		m.queue.Remove(n.place)
	}
}

// next returns when to ask next; ok is false if there is no node to ask.
func (m *meter) next() (at time.Time, ok bool) {
	if len(m.queue) == 0 {
		return at, false
	}
	if at = m.queue[0].due; at.Before(m.began.Add(measureGap)) {
		at = m.began.Add(measureGap)
	}
	return at, true
}

// begin asks the node that is due.
func (m *meter) begin(ctx context.Context, now time.Time) {
	if len(m.queue) == 0 || now.Before(m.queue[0].due) {
		return
	}
	n := m.queue[0]
	m.queue.Remove(n.place)
	n.busy, m.began = true, now
	m.busy++
	var since time.Time
	if m.usage[n.name] == nil {
		since = now.Add(-measureHistory)
	}
	go func() {
		ctx, cancel := context.WithTimeout(ctx, measureAnswer)
		defer cancel()
		a := answer{node: n}
		a.err = supervise.Contain(func() (err error) {
			a.said, err = m.ask(ctx, n.name, since)
			return err
		})
		m.answers <- a
	}()
}

// take keeps an answer. It reports whether the usage of the node is newer now.
func (m *meter) take(a answer) bool {
	m.busy--
	n := a.node
	n.busy = false
	if m.nodes[n.name] != n {
		return false // no policy wants it any more
	}
	if n.failures++; a.err == nil {
		n.failures = 0
	}
	n.due = a.received.Add(min(measureMost, n.every<<min(n.failures, 6)))
	m.queue.Push(n)
	if a.err != nil {
		return false
	}
	before := m.usage[n.name]
	now := usageOf(before, a)
	if now == before {
		return false
	}
	m.usage[n.name] = now
	return true
}

// drain waits for the questions under way.
func (m *meter) drain() {
	for ; m.busy > 0; m.busy-- {
		<-m.answers
	}
}

// measure asks what a policy wants to be measured.
func (k *loop) measure(p *managedPolicy, s *esl.State) {
	var nodes map[string]time.Duration
	if err := esl.Contain(func() { nodes = esl.Measures(p.policy, s) }); err != nil {
		k.log(p).Warn("a policy does not say what to measure: nothing is measured for it", zap.Error(err))
		nodes = nil
	}
	k.meter.want(p, nodes, s.Now)
}

// measured keeps an answer, and calls the policies that want the node.
func (k *loop) measured(a answer) {
	if !k.meter.take(a) {
		return
	}
	k.changed = controlplane.Key{Kind: measurement, Node: a.node.name}
	defer func() { k.changed = controlplane.Key{} }()
	for p, nodes := range k.meter.wants {
		if nodes[a.node.name] > 0 {
			k.mark(p)
		}
	}
}
