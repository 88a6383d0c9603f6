package order

import (
	"cmp"
	"container/heap"
	"math"
	"slices"
)

// A discipline says which waiting jobs come first. All know of a job only what their doc says, place it
// on any nodes with room, the fullest first, and cost nothing.
type discipline struct {
	name string
	// before orders jobs: negative if a comes first.
	before func(a, b *progress) int
	// passes lets a job begin for which there is room while one before it waits.
	passes bool
	// preempts takes running jobs off their nodes for jobs that come first, and loses none of their
	// work: as with a checkpoint that takes no time.
	preempts bool
	// stays reports whether a running job keeps its nodes until a job that comes first needs them.
	// Otherwise the simulation places all jobs anew at each event, and a move costs nothing.
	stays bool
	// level, unless nil, is the level of a job that has been served for some node seconds, and how
	// much more service changes it.
	level func(served float64) (level int, more float64)
}

// attained is the service after which a job comes after those that have had less, in node seconds: an
// hour of a node (Tiresias: two queues, in order of arrival within each).
const attained = 3600

// disciplines are those to compare with. Their names differ from those of policies, which share the table.
func disciplines() []discipline {
	arrival := func(a, b *progress) int { return cmp.Compare(a.n, b.n) }
	length := func(a, b *progress) int { return cmp.Or(cmp.Compare(a.left, b.left), arrival(a, b)) }
	served := func(a, b *progress) int { return cmp.Or(cmp.Compare(a.level, b.level), arrival(a, b)) }
	return []discipline{
		// In order of arrival.
		{name: "fifo", before: arrival},
		// In order of arrival, and whatever fits may pass: the base of all ratios.
		{name: base, before: arrival, passes: true},
		// The shortest first, of known lengths.
		{name: "sjf", before: length, passes: true},
		// The earliest deadline first, and whatever fits may pass.
		{name: "edf", passes: true, before: func(a, b *progress) int { return cmp.Or(cmp.Compare(a.deadline, b.deadline), arrival(a, b)) }},
		// The shortest remaining time first.
		{name: "srtf", before: length, passes: true, preempts: true},
		// The least attained service first, of unknown lengths: moving jobs for nothing, and in place.
		{name: "las-moving", passes: true, preempts: true, before: served, level: twoQueues},
		{name: "las", passes: true, preempts: true, stays: true, before: served, level: twoQueues},
	}
}

// twoQueues is the level of a job in two queues of attained service.
func twoQueues(served float64) (level int, more float64) {
	if served < attained {
		return 0, attained - served
	}
	return 1, math.Inf(1)
}

// base is the discipline that others are compared with.
const base = "fifo-passes"

// progress is a job during a simulation.
type progress struct {
	n int // in order of arrival
	// width is how much it asks for, in nodes, and deadline when it is to end.
	width, deadline float64
	// left is how long it still has to run, and served what it has had, in node seconds, at since.
	left, served, since float64
	level               int
	running             bool
	nodes               []int
	span                span
	stale               int // events of it that no longer count
}

// slack is what rounding may leave of a time or a service, in seconds.
const slack = 1e-3

// event is the end of a running job, or a change of its level.
type event struct {
	at    float64
	of    *progress
	valid int
}

type events []event

func (h events) Len() int           { return len(h) }
func (h events) Less(i, j int) bool { return h[i].at < h[j].at }
func (h events) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *events) Push(x any)        { *h = append(*h, x.(event)) }
func (h *events) Pop() any {
	last := (*h)[len(*h)-1]
	*h = (*h)[:len(*h)-1]
	return last
}

// simulation is a discipline at work.
type simulation struct {
	discipline
	now     float64
	arrived float64 // when the last job arrives
	fits    *fitting
	waiting []*progress
	running []*progress
	events  events
}

// simulate returns when each job begins and ends under a discipline.
func simulate(l load, d discipline) []span {
	s := &simulation{discipline: d, arrived: l.jobs[len(l.jobs)-1].At}
	s.fits = newFitting(l)
	all := make([]*progress, len(l.jobs))
	for i, j := range l.jobs {
		all[i] = &progress{n: i, width: s.fits.width(i), deadline: j.At + j.Deadline, left: j.Runs, span: span{Begin: -1}}
	}
	for next := 0; next < len(all) || len(s.events) > 0; {
		if next < len(all) && (len(s.events) == 0 || l.jobs[next].At <= s.events[0].at) {
			s.now = l.jobs[next].At
			s.insert(all[next])
			next++
			if next < len(all) && l.jobs[next].At == s.now {
				continue
			}
		} else if e := heap.Pop(&s.events).(event); e.valid != e.of.stale {
			continue
		} else {
			s.now = e.at
			s.reach(e.of)
		}
		s.begin()
	}
	out := make([]span, len(all))
	for i, p := range all {
		out[i] = p.span
	}
	return out
}

// insert adds a job to those that wait.
func (s *simulation) insert(p *progress) {
	at, _ := slices.BinarySearchFunc(s.waiting, p, s.before)
	s.waiting = slices.Insert(s.waiting, at, p)
}

// reach is the end of a running job, or the change of its level.
func (s *simulation) reach(p *progress) {
	s.serve(p)
	if p.left > slack {
		p.stale++
		s.expect(p)
		return
	}
	p.span.End = s.now
	s.leave(p)
}

// serve counts the service of a running job until now.
func (s *simulation) serve(p *progress) {
	p.span.Early += max(0, min(s.now, s.arrived)-p.since)
	p.left, p.served, p.since = p.left-(s.now-p.since), p.served+(s.now-p.since)*p.width, s.now
	if s.level != nil {
		p.level, _ = s.level(p.served + slack)
	}
}

// leave takes a job off its nodes.
func (s *simulation) leave(p *progress) {
	s.fits.put(p.n, p.nodes)
	s.fits.freed()
	p.nodes, p.running = nil, false
	p.stale++
	s.running = slices.DeleteFunc(s.running, func(q *progress) bool { return q == p })
}

// expect adds the next event of a running job.
func (s *simulation) expect(p *progress) {
	at := s.now + p.left
	if s.level != nil {
		if level, more := s.level(p.served); level == p.level && !math.IsInf(more, 1) {
			at = min(at, s.now+more/p.width)
		}
	}
	heap.Push(&s.events, event{at, p, p.stale})
}

// begin begins the jobs that are next.
func (s *simulation) begin() {
	if s.preempts {
		s.choose()
		return
	}
	kept := s.waiting[:0]
	for i, p := range s.waiting {
		if !s.place(p) {
			kept = append(kept, p)
			if !s.passes {
				kept = append(kept, s.waiting[i+1:]...)
				break
			}
		}
	}
	s.waiting = kept
}

// choose selects the jobs that run from now on: in order, as far as there is room.
func (s *simulation) choose() {
	before := slices.Clone(s.running)
	for _, p := range before {
		if s.serve(p); p.left <= slack { // its end is an event of this moment
			p.span.End = s.now
			s.leave(p)
		}
	}
	if s.stays {
		s.chooseInPlace()
		return
	}
	before = slices.Clone(s.running)
	all := slices.Concat(before, s.waiting)
	slices.SortFunc(all, s.before)
	s.fits.clear()
	s.waiting, s.running = nil, nil
	for _, p := range all {
		was := p.running
		p.nodes, p.running = nil, false
		switch {
		case !s.fit(p):
			if was {
				p.stale++
			}
			s.waiting = append(s.waiting, p)
		case was:
			p.running, s.running = true, append(s.running, p)
		default:
			s.start(p)
		}
	}
}

// chooseInPlace selects the jobs that run from now on, and moves none: a job that comes first takes the
// nodes of those that come last.
func (s *simulation) chooseInPlace() {
	slices.SortFunc(s.waiting, s.before)
	for i := 0; i < len(s.waiting); {
		p := s.waiting[i]
		if !s.fit(p) && !s.displace(p) {
			i++
			continue
		}
		at := slices.Index(s.waiting, p)
		s.waiting = slices.Delete(s.waiting, at, at+1)
		s.start(p)
	}
}

// displace takes running jobs that come after a job off their nodes, the last first, until it fits; none
// if it does not fit without all of them.
func (s *simulation) displace(p *progress) bool {
	last := slices.DeleteFunc(slices.Clone(s.running), func(q *progress) bool { return s.before(q, p) < 0 })
	slices.SortFunc(last, func(a, b *progress) int { return s.before(b, a) })
	var off []*progress
	for _, q := range last {
		s.fits.put(q.n, q.nodes)
		s.fits.freed()
		if off = append(off, q); s.fit(p) {
			break
		}
	}
	for _, q := range slices.Backward(off) {
		if s.fits.retake(q.n, q.nodes) {
			continue
		}
		q.nodes, q.running = nil, false
		q.stale++
		s.running = slices.DeleteFunc(s.running, func(x *progress) bool { return x == q })
		s.insert(q)
	}
	return p.nodes != nil
}

// place begins a job if there is room.
func (s *simulation) place(p *progress) bool {
	if !s.fit(p) {
		return false
	}
	s.start(p)
	return true
}

// start lets a job that has its nodes run.
func (s *simulation) start(p *progress) {
	if p.span.Begin < 0 {
		p.span.Begin = s.now
	}
	p.running, p.since = true, s.now
	s.running = append(s.running, p)
	s.expect(p)
}

// fit takes room for all tasks of a job, on the fullest nodes, or for none.
func (s *simulation) fit(p *progress) bool {
	p.nodes = s.fits.take(p.n)
	return p.nodes != nil
}
