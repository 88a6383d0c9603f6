//go:build linux

package watchdog

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/escher-sched/escher/nodeagent/machine/cgroup"
	"github.com/escher-sched/escher/types/execution"
)

// SessionFile is the file in the agent's state directory that lists the containers that may outlive
// the session: as JSON with a list "keep".
const SessionFile = "session.json"

// EndingDir is the directory in the agent's state directory with a file for each container whose
// end is not its own. Fenced is the content of such a file if the session was lost.
const (
	EndingDir = "ending"
	Fenced    = "fenced"
)

// killAtOnce is the maximum number of concurrent kills. killPatience limits each kill before the
// others are checked again.
const (
	killAtOnce   = 16
	killPatience = time.Second
	// waitingName is the prefix of the name of a process that runc has made and not let run yet.
	waitingName = "runc:["
)

// guard guards one node.
type guard struct {
	Node
	clock  clock
	bootID string
	page   []byte
	log    *says
	books  *books

	keep    cached[[]string]
	started cached[execution.Running]
	ranAt   time.Duration
	killAt  time.Duration
	set     bool
}

// run kills in time until nothing is left to guard or ctx is done.
func (g *guard) run(ctx context.Context, agent *agent) error {
	for ctx.Err() == nil {
		s := g.look(agent)
		d := next(s)
		switch {
		case d.end:
			return nil
		case d.kill:
			g.kill(ctx)
		}
		if err := g.clock.sleep(ctx, d.until, agent.news()); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// runs reports whether a container has processes; true if unknown.
func (g *guard) runs(id string) bool {
	pids, err := cgroup.Procs(g.Root, g.Cgroups.Path(id))
	return err != nil || len(pids) > 0
}

// look returns the current sight.
func (g *guard) look(a *agent) sight {
	if killAt, bootID, ok := decodePage(g.page); ok && bootID == g.bootID {
		g.killAt, g.set = killAt, true
	}
	s := sight{now: g.clock.now(), killAt: g.killAt, set: g.set}
	s.agent, s.orderly = a.there()
	g.kept() // ahead of the deadline, when the disk may hang
	if !s.agent || s.set && s.now >= s.killAt {
		if s.runs = len(g.running()) > 0; s.runs {
			g.ranAt = s.now
		}
	}
	s.ranAt = g.ranAt
	return s
}

// kept returns the containers that may outlive the session.
func (g *guard) kept() []string {
	return g.keep.get(filepath.Join(g.StateDir, SessionFile), readKept)
}

// wasLet reports whether a process of a container was let run. A process that the runtime has made
// and not let run waits under a name of runc's.
func (g *guard) wasLet(id string) bool {
	pids, err := cgroup.Procs(g.Root, g.Cgroups.Path(id))
	if err != nil {
		return true // unknown counts as true
	}
	return slices.ContainsFunc(pids, func(pid int) bool {
		name, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/comm")
		return err == nil && !strings.HasPrefix(string(name), waitingName)
	})
}

// running returns the containers with processes that must not outlive the session. It logs errors;
// the next check tries again.
func (g *guard) running() []string {
	kept := g.kept()
	var ids []string
	for _, id := range g.candidates() {
		if slices.Contains(kept, id) {
			continue
		}
		if g.runs(id) {
			ids = append(ids, id)
		}
	}
	return ids
}

// candidates returns the containers that may exist.
func (g *guard) candidates() []string {
	if g.Shared {
		var ids []string
		for key := range g.started.get(filepath.Join(g.StateDir, execution.Name), readStarted) {
			ids = append(ids, key.Container)
		}
		slices.Sort(ids)
		return slices.Compact(ids)
	}
	names, err := cgroup.Children(g.Root, g.Cgroups.Parent())
	if err != nil {
		g.log.Print(err)
	}
	var ids []string
	for _, name := range names {
		if id, ok := g.Cgroups.ID(name); ok {
			ids = append(ids, id)
		}
	}
	return ids
}

// kill kills the running containers, and then records it: a hanging disk must not delay a kill.
func (g *guard) kill(ctx context.Context) {
	ids := g.running()
	killed, let := make([]bool, len(ids)), make([]bool, len(ids))
	var all errgroup.Group
	all.SetLimit(killAtOnce)
	for i, id := range ids {
		all.Go(func() error {
			ctx, cancel := context.WithTimeout(ctx, killPatience)
			defer cancel()
			let[i] = g.wasLet(id)
			err := cgroup.Kill(ctx, g.Root, g.Cgroups.Path(id))
			if killed[i] = err == nil; err != nil {
				g.log.Print(err)
			}
			return nil
		})
	}
	_ = all.Wait() // The next kill gets those that are left.
	p := entry{g: g, killAt: g.killAt, boot: g.clock.now(), at: time.Now()}
	for i, id := range ids {
		if killed[i] {
			p.killed = append(p.killed, id)
			if let[i] {
				p.ran = append(p.ran, id)
			}
		}
	}
	if len(p.killed) > 0 {
		g.log.Printf("killed %q of node %s: the session of the node is not certain to last any longer", p.killed, g.Name)
	}
	g.books.enter(p)
}

func readKept(path string) ([]string, error) {
	var session struct {
		Keep []string `json:"keep"`
	}
	text, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(text, &session)
	}
	return session.Keep, err
}

// readStarted returns the executions with a start and without an end. It includes killed ones: a
// late start may still finish.
func readStarted(path string) (execution.Running, error) {
	started := make(execution.Running)
	_, err := execution.ReadFile(path, func(r execution.Record) {
		if r.Event != execution.Kill {
			started.Note(r)
		}
	})
	return started, err
}
