package audit

import "github.com/escher-sched/escher/types"

// MaxKeyWrites bounds the key writes, deletes included, in the life of a task that is bound once
// and runs to its end: its own keys, and its node's allocated key at bind and release.
const MaxKeyWrites = 13

// Lives sums up the writes of tasks that are completely deleted.
type Lives struct {
	// Tasks is the number of tasks.
	Tasks int
	// Writes is the sum over the tasks, Most the largest number. A write shared by several tasks
	// counts for each of them.
	Writes, Most int
}

// Lives returns the sums over the lives that the checker has seen end.
func (c *Checker) Lives() Lives { return c.lives }

// life counts the writes of a task.
type life struct {
	writes int
	// eventful reports whether more than a start and an end happened to it.
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
		if was := t.info.before(s.revision); t.info.Mod == s.revision && was != nil && t.info.V != nil {
			t.life.eventful = true // it got other labels, or the like
		}
		if t.status.V != nil && t.status.V.Phase == types.Pending {
			t.life.eventful = true // an attempt has ended, but not the task
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

// eventful reports whether the attempt is a later one, started slowly, restarted in place, has
// checks, or was told something.
func (b *binding) eventful() bool {
	slow := b.report.V != nil && b.report.V.Phase == types.ReportStarting
	again := b.report.V != nil && b.report.V.Restarts > 0
	// Each change of its health is reported.
	checked := b.report.V != nil && b.report.V.Health != ""
	told := b.info.V != nil && b.info.old != nil
	return b.number > 1 || slow || again || checked || told
}
