//go:build linux

package watchdog

import (
	"fmt"
	"log"
	"sync"
	"time"

	"github.com/escher-sched/escher/nodeagent/bounded"
)

// says is the log of a watchdog. Its own goroutine writes it, because that waits for the disk:
// while the disk hangs, it drops lines beyond its queue. It writes a repeated line once a minute.
type says struct {
	lines chan string
	done  chan struct{}

	mu     sync.Mutex
	closed bool
	// said is when each line was last written.
	said map[string]time.Time
}

const (
	// sayAgain is the time after which a repeated line is written again.
	sayAgain = time.Minute
	// saidMost is the maximum number of remembered lines.
	saidMost = 100
)

func newSays(to *log.Logger) *says {
	const waiting = 64
	s := &says{lines: make(chan string, waiting), done: make(chan struct{}), said: make(map[string]time.Time)}
	go func() {
		defer close(s.done)
		for line := range s.lines {
			to.Print(line)
		}
	}()
	return s
}

func (s *says) Print(err error) { s.Printf("%v", err) }

func (s *says) Printf(format string, args ...any) {
	line := fmt.Sprintf(format, args...)
	s.mu.Lock()
	defer s.mu.Unlock()
	if at, ok := s.said[line]; s.closed || ok && time.Since(at) < sayAgain {
		return
	}
	select {
	case s.lines <- line:
		if len(s.said) >= saidMost {
			clear(s.said)
		}
		s.said[line] = time.Now()
	default:
	}
}

// close waits until everything is written, but not too long.
func (s *says) close() {
	s.mu.Lock()
	s.closed = true
	close(s.lines)
	s.mu.Unlock()
	waitFor(s.done)
}

// waitFor waits for a goroutine that writes to the disk, with a limit.
func waitFor(done <-chan struct{}) {
	const patience = 5 * time.Second
	bounded.Wait(done, patience)
}
