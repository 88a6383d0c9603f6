package nodeagent

import (
	"container/list"
	"fmt"
	"sync"
	"time"

	"github.com/escher-sched/escher/types"
)

// Step is an event in the life of an attempt on its node.
type Step string

// The steps, in their usual order.
const (
	StepBound      Step = "bound"      // the agent learned of it
	StepPulling    Step = "pulling"    // its image is being pulled
	StepPulled     Step = "pulled"     // its image was pulled
	StepStarting   Step = "starting"   // its container is being made
	StepStarted    Step = "started"    // its process runs
	StepAdopted    Step = "adopted"    // a restarted agent found it running
	StepTrouble    Step = "trouble"    // an action failed, and the agent retries it
	StepHealthy    Step = "healthy"    // all of its checks succeed
	StepUnhealthy  Step = "unhealthy"  // one of its checks fails
	StepWarned     Step = "warned"     // it got its warning
	StepSignalled  Step = "signalled"  // it got its stop signal
	StepKilled     Step = "killed"     // it was killed
	StepExited     Step = "exited"     // its process has ended
	StepRestarting Step = "restarting" // it will run again
	StepFailed     Step = "failed"     // it can never run
	StepReleased   Step = "released"   // its binding and its container are gone
)

// Event is one step of an attempt.
type Event struct {
	// Seq numbers the events of an attempt on this node from 1. The agent may have dropped the
	// first ones.
	Seq int
	At  time.Time
	// Restart is the number of restarts before the event.
	Restart int
	Step    Step
	// Text is one line for people; it may be empty.
	Text string
}

const (
	// maxEventAttempts and maxEvents bound the history: the attempts with the latest events, and
	// the latest events of each.
	maxEventAttempts = 1000
	maxEvents        = 64
)

// history keeps events, in memory only.
type history struct {
	mu sync.Mutex
	// latest has the attempts, the one with the latest event first.
	latest   *list.List
	attempts map[attemptName]*list.Element
}

// attemptName is the name of an attempt for users.
type attemptName struct {
	namespace, task string
	number          int
}

// past has the events of one attempt.
type past struct {
	name   attemptName
	seq    int
	events []Event
	// more is closed at the next event.
	more chan struct{}
}

func newHistory() *history {
	return &history{latest: list.New(), attempts: make(map[attemptName]*list.Element)}
}

// add adds an event.
func (h *history) add(a Attempt, restart int, step Step, text string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	p := h.past(attemptName{a.Namespace, a.Task, a.Number})
	p.seq++
	p.events = append(p.events, Event{Seq: p.seq, At: time.Now(), Restart: restart, Step: step, Text: text})
	if len(p.events) > maxEvents {
		p.events = append(p.events[:0], p.events[1:]...)
	}
	close(p.more)
	p.more = make(chan struct{})
}

// past returns the events of an attempt and moves it to the front. The caller holds h.mu.
func (h *history) past(name attemptName) *past {
	if e := h.attempts[name]; e != nil {
		h.latest.MoveToFront(e)
		return e.Value.(*past)
	}
	p := &past{name: name, more: make(chan struct{})}
	h.attempts[name] = h.latest.PushFront(p)
	if h.latest.Len() > maxEventAttempts {
		oldest := h.latest.Remove(h.latest.Back()).(*past)
		delete(h.attempts, oldest.name)
		close(oldest.more) // Waiting callers ask again, and get no events.
	}
	return p
}

// Events returns the events of an attempt on this node after the event numbered after, oldest
// first, and a channel that is closed at the next event. The agent keeps the latest events of the
// latest attempts since its start. For other attempts both results are nil.
func (a *Agent) Events(namespace, task string, attempt, after int) (events []Event, more <-chan struct{}) {
	h := a.events
	h.mu.Lock()
	defer h.mu.Unlock()
	e := h.attempts[attemptName{namespace, task, attempt}]
	if e == nil {
		return nil, nil
	}
	p := e.Value.(*past)
	for _, event := range p.events {
		if event.Seq > after {
			events = append(events, event)
		}
	}
	return events, p.more
}

// note adds an event of the task. The caller holds a.mu.
func (t *task) note(step Step, format string, args ...any) {
	t.a.events.add(t.attempt, t.seen.Restart, step, types.CutReason(fmt.Sprintf(format, args...)))
}
