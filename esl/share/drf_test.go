package share

import (
	"math"
	"testing"

	"pgregory.net/rapid"
)

// one is a user with a weight and a demand.
func one(weight float64, demand ...float64) *sharer { return &sharer{weight: weight, demand: demand} }

func group(weight float64, of ...*sharer) *sharer { return &sharer{weight: weight, of: of} }

func TestShareOut(t *testing.T) {
	const lots = 1e9
	for _, test := range []struct {
		name     string
		tree     *sharer
		capacity []float64
		want     [][]float64
	}{
		{"alone has all", group(1, one(1, lots)), []float64{256}, [][]float64{{256}}},
		{"two halves", group(1, one(1, lots), one(1, lots)), []float64{256}, [][]float64{{128}, {128}}},
		{"by weight", group(1, one(3, lots), one(1, lots)), []float64{256}, [][]float64{{192}, {64}}},
		{"idle is lent", group(1, one(1, 10), one(1, lots), one(1, lots)), []float64{100}, [][]float64{{10}, {45}, {45}}},
		{"enough for all", group(1, one(1, 10), one(5, 20)), []float64{100}, [][]float64{{10}, {20}}},
		{
			"teams of teams", // within a team first: what bob leaves is alice's
			group(1, group(1, one(1, lots), one(1, 10)), group(1, group(1, one(1, lots), one(1, lots)), one(2, lots))),
			[]float64{120},
			[][]float64{{50}, {10}, {10}, {10}, {40}},
		},
		{
			"a team that wants little lends to the others",
			group(1, group(1, one(1, 3), one(1, 3)), group(1, one(1, lots))), []float64{100}, [][]float64{{3}, {3}, {94}},
		},
		{
			"the example of the paper on DRF", // 9 cpu, 18 GB; A wants <1, 4>, B <3, 1>
			group(1, one(1, 1e6, 4e6), one(1, 3e6, 1e6)), []float64{9, 18}, [][]float64{{3, 12}, {6, 2}},
		},
		{
			"who does not need what is scarce goes on",
			group(1, one(1, lots, 0), one(1, lots, 0), one(1, 0, lots)), []float64{10, 10}, [][]float64{{5, 0}, {5, 0}, {0, 10}},
		},
		{
			"who stops in a team leaves its growth to the team", // gpu are out: a's second still grows
			group(1, group(1, one(1, 0, lots), one(1, lots, 0)), group(1, one(1, 0, lots))),
			[]float64{90, 30}, [][]float64{{0, 10}, {90, 0}, {0, 20}},
		},
		{"a resource that exists nowhere limits no user", group(1, one(1, 10, 5)), []float64{8, 0}, [][]float64{{8, 4}}},
		{"no user wants anything", group(1, one(1, 0)), []float64{8}, [][]float64{{0}}},
	} {
		t.Run(test.name, func(t *testing.T) {
			test.tree.shareOut(test.capacity)
			for i, l := range test.tree.leaves(nil) {
				for r, want := range test.want[i] {
					if math.Abs(l.given[r]-want) > 1e-4 {
						t.Errorf("user %d has %v, want %v", i, l.given, test.want[i])
						break
					}
				}
			}
		})
	}
}

// drawTree draws a tree of at most three levels.
func drawTree(t *rapid.T, depth, resources int) *sharer {
	weight := rapid.Float64Range(0.1, 10).Draw(t, "weight")
	if depth == 0 || rapid.Bool().Draw(t, "user") {
		demand := make([]float64, resources)
		for r := range demand {
			demand[r] = rapid.SampledFrom([]float64{0, 1, 3, 10, 200, 1e6}).Draw(t, "demand")
		}
		return one(weight, demand...)
	}
	team := group(weight)
	for range rapid.IntRange(1, 4).Draw(t, "members") {
		team.of = append(team.of, drawTree(t, depth-1, resources))
	}
	return team
}

// TestShareOutFair checks the guarantees in the comment of shareOut for any tree.
func TestShareOutFair(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		resources := rapid.IntRange(1, 3).Draw(t, "resources")
		root := group(1)
		for range rapid.IntRange(1, 5).Draw(t, "teams") {
			root.of = append(root.of, drawTree(t, 2, resources))
		}
		capacity := make([]float64, resources)
		for r := range capacity {
			capacity[r] = rapid.SampledFrom([]float64{1, 10, 100, 3000}).Draw(t, "capacity")
		}
		root.shareOut(capacity)
		free := append([]float64(nil), capacity...)
		leaves := root.leaves(nil)
		for _, l := range leaves {
			for r := range free {
				if free[r] -= l.given[r]; free[r] < -1e-6*capacity[r] {
					t.Fatalf("more than there is of resource %d is given out", r)
				}
				if l.given[r] > l.demand[r]*(1+1e-6) {
					t.Fatalf("%v is more than %v, which is wanted", l.given, l.demand)
				}
			}
		}
		root.parts(1)
		for _, l := range leaves {
			if l.done == 1 || l.dominant == 0 {
				continue
			}
			scarce := false
			for r := range free {
				scarce = scarce || l.demand[r] > 0 && free[r] <= 1e-6*capacity[r]
			}
			if !scarce {
				t.Fatalf("%v of %v, and all of it is left: %v", l.given, l.demand, free)
			}
			if got := l.done * l.dominant; got < l.rate*(1-1e-6) {
				t.Fatalf("a dominant share of %g, and by weight it is %g", got, l.rate)
			}
		}
	})
}

// TestShareOutNoGain: for one resource, a user gains nothing by a larger demand or by a smaller
// weight of another; and a user that leaves takes nothing from the others.
func TestShareOutNoGain(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		demands := rapid.SliceOfN(rapid.Float64Range(0, 50), 2, 6).Draw(t, "demands")
		users := func() []*sharer {
			var out []*sharer
			for _, d := range demands {
				out = append(out, one(1, d))
			}
			return out
		}
		before := group(1, users()...)
		before.shareOut([]float64{60})
		i := rapid.IntRange(0, len(demands)-1).Draw(t, "who")
		old := demands[i]
		demands[i] += 10
		greedy := group(1, users()...)
		greedy.shareOut([]float64{60})
		demands[i] = 0
		gone := group(1, users()...)
		gone.shareOut([]float64{60})
		for j := range demands {
			if j != i && greedy.of[j].given[0] > before.of[j].given[0]+1e-6 {
				t.Fatalf("%d wants more, and %d has more of it", i, j)
			}
			if j != i && gone.of[j].given[0] < before.of[j].given[0]-1e-6 {
				t.Fatalf("%d has left, and %d has less", i, j)
			}
		}
		if useful := min(greedy.of[i].given[0], old); useful < before.of[i].given[0]-1e-6 {
			t.Fatalf("%g, and before %g", useful, before.of[i].given[0])
		}
	})
}

func BenchmarkShareOut(b *testing.B) {
	for b.Loop() {
		root := group(1)
		for i := range 10 {
			team := group(float64(i + 1))
			for j := range 100 {
				team.of = append(team.of, one(1, float64(1+(i*7+j)%97), float64(j%13), 0))
			}
			root.of = append(root.of, team)
		}
		root.shareOut([]float64{6400, 6400, 64})
	}
}

// TestShareOutOfNothing: a demand too small to divide holds up no other user.
func TestShareOutOfNothing(t *testing.T) {
	users := group(1, one(1, 5e-324), one(1, 50), one(1, 1e-300))
	users.shareOut([]float64{60})
	if got := users.of[1].given[0]; got != 50 {
		t.Errorf("%g, want 50", got)
	}
}
