package loss

import (
	"fmt"
	"testing"
	"time"

	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/types"
)

// gone returns n vanished nodes, and an attempt on each.
func gone(n int) (nodes []*cluster.Node, attempts []*cluster.Binding) {
	for i := range n {
		x := &cluster.Node{Name: fmt.Sprint("n", i), Info: cluster.Cell[types.Node]{V: &types.Node{}}}
		nodes, attempts = append(nodes, x), append(attempts, &cluster.Binding{Node: x})
	}
	return nodes, attempts
}

// TestRate: without a storm, attempts are given up at the rate, each once.
func TestRate(t *testing.T) {
	const rate = 10
	now := time.Unix(1000, 0)
	l := New(rate, time.Minute)
	nodes, attempts := gone(3 * rate)
	l.Seen(nodes[0], now)
	var given []*cluster.Binding
	try := func(b *cluster.Binding) {
		if l.May(b, 1000, now) {
			given = append(given, b)
		}
	}
	for _, b := range attempts {
		try(b)
	}
	if len(given) != rate || l.Wake() == 0 {
		t.Fatalf("%d are given up at once, and it wakes at %d", len(given), l.Wake())
	}
	for steps := 0; l.Wake() != 0; steps++ {
		if steps > 100 {
			t.Fatal("some are never given up")
		}
		now = time.Unix(0, l.Wake())
		var due []*cluster.Binding
		l.Retry(1000, now, func(b *cluster.Binding) { due = append(due, b) }, func(*cluster.Reservation) {})
		for _, b := range due {
			try(b)
		}
	}
	if took := now.Sub(time.Unix(1000, 0)); len(given) != len(attempts) || took < 2*time.Second || took > 3*time.Second {
		t.Errorf("%d of %d are given up after %s", len(given), len(attempts), took)
	}
	once := make(map[*cluster.Binding]bool)
	for _, b := range given {
		if once[b] {
			t.Fatalf("the attempt on %s is given up twice", b.Node.Name)
		}
		once[b] = true
	}
}

// TestStorm: while many nodes vanished at once, nothing is given up, except on machines known to be
// dead. Reservations are held back until it is over.
func TestStorm(t *testing.T) {
	now := time.Unix(1000, 0)
	l := New(1000, time.Minute)
	nodes, attempts := gone(4)
	for _, n := range nodes[:StormNodes-1] {
		l.Seen(n, now)
	}
	if l.Storm(StormNodes, now) {
		t.Error("too few nodes make a storm")
	}
	for _, n := range nodes[StormNodes-1:] {
		l.Seen(n, now)
	}
	if l.Storm(8, now) || !l.Storm(7, now.Add(1)) {
		t.Error("a storm takes more than half of the nodes")
	}
	nodes[3].Cordon = cluster.Cell[types.Cordon]{V: &types.Cordon{Dead: true}, Mod: 1}
	if l.May(attempts[0], 5, now.Add(2)) || !l.May(attempts[3], 5, now.Add(2)) {
		t.Error("only what is known to be dead is given up")
	}
	held, retried := &cluster.Reservation{}, 0
	l.HoldBack(held)
	again := func(*cluster.Binding) { retried++ }
	release := func(r *cluster.Reservation) {
		if r == held {
			retried += 10
		}
	}
	l.Retry(5, now.Add(30*time.Second), again, release)
	if retried != 0 {
		t.Errorf("%d are retried in the storm", retried)
	}
	if at := time.Unix(0, l.Wake()); at != now.Add(time.Minute) {
		t.Errorf("it wakes at %s", at)
	}
	l.Retry(5, now.Add(time.Minute), again, release)
	if retried != 11 || l.Wake() != 0 {
		t.Errorf("%d are retried after the storm, and it wakes at %d", retried, l.Wake())
	}
}

// TestNodeIsBack: attempts on a node that is back are given up at once: it has ended them.
func TestNodeIsBack(t *testing.T) {
	now := time.Unix(1000, 0)
	l := New(0.001, time.Minute)
	nodes, attempts := gone(3)
	for _, n := range nodes {
		l.Seen(n, now)
	}
	nodes[0].Alive = cluster.Cell[types.Alive]{V: &types.Alive{}}
	l.Seen(nodes[0], now)
	if !l.May(attempts[0], 3, now) || l.May(attempts[1], 3, now) || l.Storm(3, now) {
		t.Error("two of three are gone")
	}
}
