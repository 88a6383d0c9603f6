package server

import (
	"time"

	"github.com/escher-sched/escher/controlplane/supervise"
)

// setbacks remembers failed items by their keys. Each is retried after a growing pause, while the
// others continue.
type setbacks map[string]*setback

type setback struct {
	schedule *supervise.Schedule
	until    time.Time
	said     string
}

// maxSetbacks bounds the remembered items. Beyond it all are forgotten, so they fail and are logged
// once more.
const maxSetbacks = 10_000

// failed records the failure of an item. news reports whether the error differs from the last one.
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

// pending reports whether an item failed and is not due for a retry.
func (s setbacks) pending(key string, now time.Time) bool {
	x := s[key]
	return x != nil && now.Before(x.until)
}
