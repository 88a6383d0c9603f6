package nodeagent

import (
	"container/list"
	"fmt"
	"sync"
	"time"

	"github.com/escher-sched/escher/types"
)

// Step is what happened to an attempt on its node.
type Step string

// The steps, in the order in which they come as a rule.
const (
	StepBound      Step = "bound"      // the agent learnt of it
	StepPulling    Step = "pulling"    // its image is being fetched
	StepPulled     Step = "pulled"     // it was fetched
	StepStarting   Step = "starting"   // its container is being made
	StepStarted    Step = "started"    // its process runs
	StepAdopted    Step = "adopted"    // an agent that restarted found it running
	StepTrouble    Step = "trouble"    // something failed that is tried again
	StepHealthy    Step = "healthy"    // all of its checks hold
	StepUnhealthy  Step = "unhealthy"  // one of its checks fails
	StepWarned     Step = "warned"     // it was told that it has to end
	StepSignalled  Step = "signalled"  // it was asked to end
	StepKilled     Step = "killed"     // it was ended
	StepExited     Step = "exited"     // its process has ended
	StepRestarting Step = "restarting" // it is to run again
	StepFailed     Step = "failed"     // it can never run
	StepReleased   Step = "released"   // its binding is gone, and nothing is left of it
)

// Event is one step of an attempt.
type Event struct {
	// Seq counts the events of an attempt on this node, from 1; the first ones may
	// be forgotten.
	Seq int
	At  time.Time
	// Restart is how often the attempt had been run before.
	Restart int
	Step    Step
	// Text says more, for people: one line, may be empty.
	Text string
}

const (
	// maxEventAttempts and maxEvents bound what is remembered: the attempts that
	// something happened to last, and the last events of each.
	maxEventAttempts = 1000
	maxEvents        = 64
)

// history remembers what happened, in memory alone.
type history struct {
	mu sync.Mutex
	// latest has the attempts, the one that something happened to last in front.
	latest   *list.List
	attempts map[attemptName]*list.Element
}

// attemptName is an attempt as users name it.
type attemptName struct {
	namespace, task string
	number          int
}

// past is what happened to one attempt.
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

// past returns what happened to an attempt, now the latest. The caller holds h.mu.
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
		close(oldest.more) // Who waits for more asks again, and is told of none.
	}
	return p
}

// Events returns what happened to an attempt on this node, oldest first, of what came
// after the event numbered after, and a channel that is closed when there is more.
// The last events of the last attempts are remembered, since the agent was started;
// of others there is nothing, and a nil channel.
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
