package audit

import "github.com/escher-sched/escher/types"

// MaxKeyWrites is how many writes of keys, deletes included, the life of a task
// takes at most that is bound once and runs to its end: its own keys, and what is
// allocated on its node when it is bound and released.
const MaxKeyWrites = 13

// Lives sums up the writes of the tasks of which nothing is left.
type Lives struct {
	// Tasks is how many there were.
	Tasks int
	// Writes is the sum over them, Most the largest of them; what several tasks
	// share counts in full for each.
	Writes, Most int
}

// Lives returns what the lives of tasks took that the checker has seen end.
func (c *Checker) Lives() Lives { return c.lives }

// life counts the writes of a task.
type life struct {
	writes int
	// eventful tells that more than a start and an end happened to it.
	eventful bool
	reported bool
}

// checkLives validates KeyWrites.
func (c *Checker) checkLives() {
	s := c.s
	for _, b := range s.touched.bindings {
		l := &b.of.life
		l.eventful = l.eventful || b.eventful()
		come, gone := b.info.created(s.revision), b.info.deleted(s.revision)
		if (come || gone) && b.node.allocated.Mod == s.revision {
			l.writes++
		}
	}
	found := c.change(KeyWrites)
	for _, t := range s.touched.tasks {
		if t.info.V != nil && (t.info.V.Stop != nil || t.info.V.Evict != 0 || t.info.V.Later != nil) {
			t.life.eventful = true
		}
		if t.status.V != nil && t.status.V.Phase == types.Pending {
			t.life.eventful = true // an attempt of it has ended, and it has not
		}
		if t.life.writes > MaxKeyWrites && !t.life.eventful && !t.life.reported {
			t.life.reported = true
			found(t.object(), "took more than %d writes of keys", MaxKeyWrites)
		}
		if t.info.V == nil && t.status.V == nil && t.bound() == nil {
			c.lives.add(t.life.writes)
		}
	}
}

func (l *Lives) add(writes int) {
	l.Tasks++
	l.Writes += writes
	l.Most = max(l.Most, writes)
}

// eventful reports whether the attempt is a later one, was slow to start, was run
// again in place, has checks, or was told something.
func (b *binding) eventful() bool {
	slow := b.report.V != nil && b.report.V.Phase == types.ReportStarting
	again := b.report.V != nil && b.report.V.Restarts > 0
	// Each change of its health is told.
	checked := b.report.V != nil && b.report.V.Health != ""
	told := b.info.V != nil && b.info.old != nil
	return b.number > 1 || slow || again || checked || told
}
