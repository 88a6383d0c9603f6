package server

import (
	"time"

	"github.com/escher-sched/escher/controlplane/supervise"
)

// setbacks remember the items that failed, by their keys: each is tried again after a pause
// that grows, and the others go on meanwhile.
type setbacks map[string]*setback

type setback struct {
	schedule *supervise.Schedule
	until    time.Time
	said     string
}

// maxSetbacks bounds how many items are remembered. Beyond it all are forgotten: they
// fail, and are told, once more.
const maxSetbacks = 10_000

// failed notes that an item failed. It reports whether that is news: the error is another
// one than the last time.
func (s setbacks) failed(key string, err error, now time.Time) (news bool) {
	if len(s) >= maxSetbacks {
		clear(s)
	}
	x := s[key]
	if x == nil {
		x = &setback{schedule: supervise.NewSchedule()}
		s[key] = x
	}
	x.until = now.Add(x.schedule.Next(0))
	news = x.said != err.Error()
	x.said = err.Error()
	return news
}

// pending reports whether an item failed and is not to be tried again yet.
func (s setbacks) pending(key string, now time.Time) bool {
	x := s[key]
	return x != nil && now.Before(x.until)
}
