//go:build linux

package watchdog

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/escher-sched/escher/nodeagent/fence/execlog"
	"github.com/escher-sched/escher/types/execution"
)

// books records which containers were killed: in marks, so that the agent does not take the end for
// the program's own, and in the log of executions. It writes in its own goroutine, because it waits
// for the disk.
type books struct {
	entries chan entry
	done    chan struct{}
	bootID  string
	log     *says
	// closed is the last deadline of each node for which the other ends were logged.
	closed map[*guard]time.Duration
}

// entry is the result of a kill of a node's containers at a deadline.
type entry struct {
	g      *guard
	killAt time.Duration
	killed []string
	// ran are the killed containers with a process that had been let run.
	ran  []string
	at   time.Time
	boot time.Duration
}

func newBooks(bootID string, log *says) *books {
	const waiting = 64
	b := &books{entries: make(chan entry, waiting), done: make(chan struct{}), bootID: bootID, log: log, closed: make(map[*guard]time.Duration)}
	go func() {
		defer close(b.done)
		for p := range b.entries {
			b.write(p)
		}
	}()
	return b
}

// enter queues an entry. While the disk hangs, it drops entries beyond the queue.
func (b *books) enter(p entry) {
	select {
	case b.entries <- p:
	default:
		b.log.Printf("not noted, as the disk hangs: killed %q", p.killed)
	}
}

// close waits until everything is written, but not too long.
func (b *books) close() {
	close(b.entries)
	waitFor(b.done)
}

// write records the killed containers. Once per deadline it also logs the end of the other started
// executions that must not outlive the session and have no processes.
func (b *books) write(p entry) {
	if len(p.killed) == 0 && b.closed[p.g] == p.killAt {
		return
	}
	for _, id := range p.killed {
		if err := mark(p.g.StateDir, id); err != nil {
			b.log.Printf("mark what was killed: %v", err)
		}
	}
	path := filepath.Join(p.g.StateDir, execution.Name)
	started, err := readStarted(path)
	if err != nil {
		b.log.Print(err)
		return // There is no log, or the directory is gone.
	}
	kept, err := readKept(filepath.Join(p.g.StateDir, SessionFile))
	if err != nil {
		b.log.Print(err)
	}
	var records []execution.Record
	for _, r := range started {
		if r.BootID != b.bootID {
			continue
		}
		r.Stamp(p.at, p.boot, b.bootID)
		r.Reason = "the session of the node was not certain to last"
		switch {
		case slices.Contains(p.killed, r.Container):
			r.Event, r.Ran = execution.Kill, slices.Contains(p.ran, r.Container)
		case b.closed[p.g] == p.killAt || slices.Contains(kept, r.Container) || p.g.runs(r.Container):
			continue
		default:
			r.Event = execution.End
		}
		records = append(records, r)
	}
	if len(records) == 0 {
		b.closed[p.g] = p.killAt
		return
	}
	if err := execlog.Append(p.g.StateDir, records...); err != nil {
		b.log.Print(err)
		return
	}
	b.closed[p.g] = p.killAt
}

// mark tells the agent that the end of a container is not the program's own.
func mark(stateDir, id string) error {
	dir := filepath.Join(stateDir, EndingDir)
	path := filepath.Join(dir, id)
	text, _ := ReadMark(stateDir, id) // Most have none.
	if cause, _, _ := strings.Cut(text, "\n"); cause != "" {
		return nil // The agent was ending it already, and recorded the cause.
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	if err := os.WriteFile(path+".new", []byte(Fenced), 0o600); err != nil {
		// A full disk has no block for the text of a file. The text of a short link is in its inode.
		_ = os.Remove(path + ".new")
		_ = os.Remove(path) // its text has no cause
		if os.Symlink(Fenced, path) == nil {
			return nil
		}
		return err
	}
	return os.Rename(path+".new", path)
}

// ReadMark returns the text of a container's mark: that of a file, or of a link that was made while
// the disk was full.
func ReadMark(stateDir, id string) (string, error) {
	path := filepath.Join(stateDir, EndingDir, id)
	if text, err := os.Readlink(path); err == nil {
		return text, nil
	}
	text, err := os.ReadFile(path)
	return string(text), err
}
