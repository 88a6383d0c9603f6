package place

import (
	"math"

	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/esl/taskset"
)

// Placing gives rooms to tasks, one after the other, by the function of an Assign. What it
// has reckoned for one it goes by for others that ask for the same, and reckons anew only
// for rooms of which something was taken since: among very many tasks few are of a kind of
// their own.
type Placing struct {
	score func([]cluster.Need, *esl.Room) float64
	rooms []*esl.Room
	// taken are the rooms of which something was taken, in order.
	taken []int
	// known is what was reckoned, by what is asked for.
	known map[string]*scored
}

// scored is what was reckoned for what is asked for.
type scored struct {
	// of are the scores of the rooms, NaN where it does not fit; nil when it fits nowhere,
	// as what is free becomes less and less.
	of []float64
	// seen is how many of those taken were taken into account.
	seen int
}

// Among begins to place tasks in rooms, which are given to nobody else meanwhile.
func (a Assign) Among(rooms []*esl.Room) *Placing {
	return &Placing{score: a.Score, rooms: rooms, known: make(map[string]*scored)}
}

// Place takes room for what is asked for, where it has the least score, of equal ones in the
// first room; nil if none has room.
func (p *Placing) Place(needs []cluster.Need) *esl.Room {
	at := p.best(needs, "")
	if at < 0 {
		return nil
	}
	p.take(at, needs)
	return p.rooms[at]
}

// best returns the best room for what is asked for, -1 if it fits nowhere but on one node.
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

// scores returns those of all rooms, nil if it fits nowhere.
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

// take takes what is asked for of a room.
func (p *Placing) take(at int, needs []cluster.Need) {
	p.rooms[at].Take(needs)
	p.taken = append(p.taken, at)
}
