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

// SessionFile is where the agent notes, in its state directory, what may outlive its
// session: as JSON with a list "keep" of containers.
const SessionFile = "session.json"

// EndingDir is the directory, in that of the agent, with a file for each container whose
// end is not its own; Fenced is what says that it was for want of a session.
const (
	EndingDir = "ending"
	Fenced    = "fenced"
)

// killAtOnce is how many containers are killed at the same time, killPatience how long
// each kill is given before the others are looked at again.
const (
	killAtOnce   = 16
	killPatience = time.Second
	// waitingName is how the name of a process begins that runc has not let run yet.
	waitingName = "runc:["
)

// guard looks after one node.
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

// run kills in time until there is nothing left to look after, or ctx is done.
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

// runs reports whether a container has processes, as far as it can be found out.
func (g *guard) runs(id string) bool {
	pids, err := cgroup.Procs(g.Root, g.Cgroups.Path(id))
	return err != nil || len(pids) > 0
}

// look returns what there is to be seen.
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

// wasLet reports whether a process of a container was let run: one that the runtime has made and
// not let go waits under a name of runc's.
func (g *guard) wasLet(id string) bool {
	pids, err := cgroup.Procs(g.Root, g.Cgroups.Path(id))
	if err != nil {
		return true // as far as is known
	}
	return slices.ContainsFunc(pids, func(pid int) bool {
		name, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/comm")
		return err == nil && !strings.HasPrefix(string(name), waitingName)
	})
}

// running returns the containers with processes that must not outlive the session. What
// cannot be found out is said, and looked at again.
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

// candidates returns the containers that may be there.
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

// kill kills what runs, and then has it noted: a disk that hangs keeps nothing alive.
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
	_ = all.Wait() // What is left is killed the next time.
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

// readStarted returns what was started, and not noted to have ended. What was killed is
// among it: it may come to life late.
func readStarted(path string) (execution.Running, error) {
	started := make(execution.Running)
	_, err := execution.ReadFile(path, func(r execution.Record) {
		if r.Event != execution.Kill {
			started.Note(r)
		}
	})
	return started, err
}
