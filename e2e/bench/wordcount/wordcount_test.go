package wordcount

import (
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/escher-sched/escher/e2e/bench/rig"
	"github.com/escher-sched/escher/e2e/bench/rigtest"
)

// TestWordcount counts on six nodes at forty times its speed: all mappers near their data read it
// locally, others do not. The times mean little at that speed.
func TestWordcount(t *testing.T) {
	t.Parallel()
	cfg := rigtest.Config(t)
	cfg.Scenario, cfg.Nodes, cfg.Tasks, cfg.Speed = "wordcount", 6, 5, 40
	s, err := rig.Interleave(t.Context(), cfg, placedArm(6, placedRandom), placedArm(6, placedNative), placedArm(6, placedESL))
	if err != nil {
		t.Fatal(err)
	}
	r := sizeRow(cfg, s, 6)
	waves := 2 * (chunkSize/diskSpeed + chunkSize/countSpeed)
	if r.Scenario != "wordcount-6" || r.Nodes != 6 || r.Tasks != 30 || r.Violations != 0 || r.Value < waves+reduceTime.Seconds() || r.Floor < waves+reduceTime.Seconds() {
		t.Errorf("got %+v", r)
	}
	if r.Details[localPercent] != 100 || r.Details["random_local_percent"] >= 100 || r.Details["random_s"] <= 0 {
		t.Errorf("what is read locally: %v", r.Details)
	}
}

// TestWordModel lets mappers read from their own node, and share links with one another.
func TestWordModel(t *testing.T) {
	m := newTimeModel([][]string{{"a"}, {"a"}, {"b"}, {"a", "b"}, {"b"}})
	local, counted := chunkSize/diskSpeed+chunkSize/countSpeed, chunkSize/countSpeed
	alone := chunkSize / linkSpeed
	var got []int
	expect := func(at float64, chunks ...int) {
		t.Helper()
		m.advance(at - 1e-3)
		if early := m.take(); len(early) > 0 {
			t.Errorf("%v end before %g", early, at)
		}
		m.advance(at + 1e-3)
		if got = m.take(); !slices.Equal(got, chunks) {
			t.Errorf("%v end at %g, want %v", got, at, chunks)
		}
	}
	m.begin(0, 0, "a")
	if m.local != 1 || math.Abs(m.next()-local) > 1e-9 {
		t.Errorf("%d local, next at %g", m.local, m.next())
	}
	expect(local, 0)

	// One transfers alone for half of its chunk. Then it shares the node's link with another one:
	// its second half takes as long as a whole chunk. The other has received as much by then, and
	// has the link alone for the rest.
	m.begin(100, 1, "c")
	m.begin(100+alone/2, 2, "c")
	expect(100+1.5*alone+counted, 1)
	expect(100+2*alone+counted, 2)

	// The copy on the node that serves fewer reads is used, so that neither waits for the other.
	m.begin(200, 1, "c")
	m.begin(200, 3, "d")
	expect(200+alone+counted, 1, 3)

	// Outgoing reads share the link as well.
	m.begin(300, 2, "c")
	m.begin(300, 4, "d")
	expect(300+2*alone+counted, 2, 4)
	if m.local != 1 || !math.IsInf(m.next(), 1) || m.in["c"]+m.in["d"]+m.out["a"]+m.out["b"] != 0 {
		t.Errorf("at last %+v", m)
	}
}

// TestWordPlaces: each chunk is on chunkCopies different nodes, and nameNodes loads all nodes about
// equally.
func TestWordPlaces(t *testing.T) {
	nodes := []string{"a", "b", "c", "d", "e", "f", "g", "h", "i", "j"}
	chunks := placeChunks(140, nodes)
	count := make(map[string]int)
	for i, node := range nameNodes(chunks) {
		if got := slices.Compact(slices.Sorted(slices.Values(chunks[i]))); len(got) != chunkCopies || !slices.Contains(got, node) {
			t.Errorf("chunk %d is on %v, and %s is named", i, chunks[i], node)
		}
		count[node]++
	}
	for node, n := range count {
		if n < 13 || n > 15 {
			t.Errorf("%d mappers are on %s", n, node)
		}
	}
	if got := placeChunks(1, nodes[:2]); len(got[0]) != 2 {
		t.Errorf("of two nodes a chunk is on %v", got)
	}
}

// TestPolicyLines counts the lines marked as policy.
func TestPolicyLines(t *testing.T) {
	for _, c := range []struct {
		of         string
		want, most int
		file       string
	}{
		{"policyLines", policyLines, 2, "app.go"},
	} {
		text, err := os.ReadFile(c.file)
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Count(string(text), "// Policy\n"); got != c.want || got > c.most {
			t.Errorf("%s is %d, and %s has %d lines that are marked, of which at most %d are allowed: set it, or shorten them", c.of, c.want, c.file, got, c.most)
		}
	}
}
