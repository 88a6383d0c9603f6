package place

import (
	"math"

	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/esl/taskset"
)

// Placing assigns tasks to rooms, one after the other, by the Score of an Assign. It caches the
// scores for each kind of needs, and recomputes only those of rooms that have changed since: of
// very many tasks, few have needs of their own.
type Placing struct {
	score func([]cluster.Need, *esl.Room) float64
	rooms []*esl.Room
	// taken holds the indices of rooms that have changed, in order.
	taken []int
	// known holds the cached scores by the signature of needs.
	known map[string]*scored
}

// scored holds the scores of one kind of needs.
type scored struct {
	// of are the scores of the rooms, NaN where needs do not fit; nil if they fit nowhere, which
	// stays so because free capacity only shrinks.
	of []float64
	// seen is how many of taken the scores include.
	seen int
}

// Among starts to place tasks in rooms. The caller must not change them meanwhile.
func (a Assign) Among(rooms []*esl.Room) *Placing {
	return &Placing{score: a.Score, rooms: rooms, known: make(map[string]*scored)}
}

// Place allocates needs in the room with the lowest score, of equal ones the first; nil if they fit
// nowhere.
func (p *Placing) Place(needs []cluster.Need) *esl.Room {
	at := p.best(needs, "")
	if at < 0 {
		return nil
	}
	p.take(at, needs)
	return p.rooms[at]
}

// best returns the best room for needs, except on node but; -1 if they fit nowhere.
func (p *Placing) best(needs []cluster.Need, but string) int {
	best := -1
	scores := p.scores(needs)
	for i, score := range scores {
		if !math.IsNaN(score) && (best < 0 || score < scores[best]) && p.rooms[i].Node.Name != but {
			best = i
		}
	}
	return best
}

// scores returns the scores of all rooms, nil if needs fit nowhere.
func (p *Placing) scores(needs []cluster.Need) []float64 {
	like := taskset.Signature(needs)
	s := p.known[like]
	switch {
	case s == nil:
		s = &scored{of: make([]float64, len(p.rooms))}
		p.known[like] = s
		for i := range p.rooms {
			s.of[i] = p.reckon(needs, i)
		}
	case s.of == nil:
		return nil
	default:
		for _, i := range p.taken[s.seen:] {
			s.of[i] = p.reckon(needs, i)
		}
	}
	s.seen = len(p.taken)
	for _, score := range s.of {
		if !math.IsNaN(score) {
			return s.of
		}
	}
	s.of = nil
	return nil
}

func (p *Placing) reckon(needs []cluster.Need, at int) float64 {
	if !p.rooms[at].Fits(needs) {
		return math.NaN()
	}
	return p.score(needs, p.rooms[at])
}

// take allocates needs in a room.
func (p *Placing) take(at int, needs []cluster.Need) {
	p.rooms[at].Take(needs)
	p.taken = append(p.taken, at)
}
