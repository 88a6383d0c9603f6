package doctor

import (
	"bufio"
	"cmp"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/escher-sched/escher/nodeagent"
	"github.com/escher-sched/escher/nodeagent/runtime/containerd"
	"github.com/escher-sched/escher/nodeagent/runtime/containerd/daemon"
)

// gatherContainerd looks for a running daemon, and for the programs to run one.
func gatherContainerd(ctx context.Context, h host, plan Plan) Containerd {
	c := Containerd{Binary: find("containerd"), Shim: find("containerd-shim-runc-v2"), Runc: find("runc")}
	if plan.Containerd != "" {
		version, err := daemon.Version(ctx, plan.Containerd)
		if err != nil {
			c.Error = err.Error()
		}
		c.Serving = version
		c.Root = containerdRoot("/etc/containerd/config.toml")
	}
	if c.Binary != "" {
		out, _ := ask(ctx, probeWait, c.Binary, "--version")
		c.Version = word(out, 2)
	}
	if c.Runc != "" {
		out, err := ask(ctx, probeWait, c.Runc, "--version")
		if c.RuncVersion = word(out, 2); err != nil {
			c.RuncError = err.Error()
		}
	}
	c.Init = findInit(h)
	return c
}

// findInit returns the path of the init program for containers; "" if there is none.
func findInit(h host) string {
	for _, path := range containerd.DefaultInits() {
		if h.has(path) {
			return path
		}
	}
	return ""
}

// find returns the path of a program; "" if it is not installed. It also searches directories that
// only root has in PATH.
func find(name string) string {
	if path, err := exec.LookPath(name); err == nil {
		return path
	}
	for _, dir := range []string{"/usr/local/sbin", "/usr/sbin", "/sbin"} {
		if path := filepath.Join(dir, name); exec.Command(path).Err == nil {
			if _, err := os.Stat(path); err == nil {
				return path
			}
		}
	}
	return ""
}

// ask runs a short program, and returns its output. It returns errHangs if the program does not end
// in time.
func ask(ctx context.Context, wait time.Duration, path string, args ...string) (string, error) {
	type answer struct {
		out  []byte
		err  error
		late bool
	}
	a, ok := within(ctx, wait, func(ctx context.Context) answer {
		cmd := exec.CommandContext(ctx, path, args...)
		cmd.WaitDelay = wait / 4 // its child processes may hold its output open
		out, err := cmd.CombinedOutput()
		return answer{out, err, ctx.Err() != nil}
	})
	if !ok || a.err != nil && a.late {
		return string(a.out), errHangs
	}
	return string(a.out), a.err
}

// word returns the n-th word of a text, from 0; "" if there is none.
func word(text string, n int) string {
	if fields := strings.Fields(text); n < len(fields) {
		return fields[n]
	}
	return ""
}

// containerdRoot returns where the machine's containerd stores images.
func containerdRoot(config string) string {
	root := ""
	if f, err := os.Open(config); err == nil {
		defer f.Close()
		for lines := bufio.NewScanner(f); lines.Scan(); {
			name, value, ok := strings.Cut(strings.TrimSpace(lines.Text()), "=")
			if ok && strings.TrimSpace(name) == "root" {
				root = strings.Trim(strings.TrimSpace(value), `"'`)
			}
			if strings.HasPrefix(name, "[") {
				break // settings of a plugin follow
			}
		}
	}
	return cmp.Or(root, "/var/lib/containerd")
}

// gatherState reports whether an agent and a watchdog run in a state directory. A hanging disk is
// reported as a fact of the directory.
func gatherState(ctx context.Context, wait time.Duration, h host, stateDir string) (Agent, Watchdog) {
	type state struct {
		agent    Agent
		watchdog Watchdog
	}
	s, _ := within(ctx, wait, func(context.Context) state {
		return state{gatherAgent(h, stateDir), gatherWatchdog(h, stateDir)}
	})
	return s.agent, s.watchdog
}

// gatherAgent reports whether an agent runs in a state directory: whether its lock is held. It does
// not try the lock, because that could prevent the start of an agent.
func gatherAgent(h host, stateDir string) Agent {
	var a Agent
	path := filepath.Join(stateDir, "lock")
	a.Running = locked(h, path)
	if a.Running {
		text, _ := os.ReadFile(path)
		a.PID = strings.TrimSpace(string(text))
	}
	if _, err := os.Stat(stateDir); err == nil {
		if lease, err := nodeagent.LastLease(stateDir); err == nil {
			a.Lease = int64(lease)
		}
	}
	return a
}

// watchdogLock is the file in the state directory that a watchdog locks.
const watchdogLock = "watchdog.lock"

// gatherWatchdog reports whether a watchdog runs. An agent of an older version never had one.
func gatherWatchdog(h host, stateDir string) Watchdog {
	path := filepath.Join(stateDir, watchdogLock)
	_, err := os.Stat(path)
	return Watchdog{Known: err == nil, Running: locked(h, path)}
}

// gatherSpaces lists the containers of Escher in the running daemon, or in the one that an agent of
// this state directory left running.
func gatherSpaces(ctx context.Context, plan Plan, c Containerd) []Space {
	found, _ := within(ctx, 2*probeWait, func(ctx context.Context) []containerd.Space {
		address := plan.Containerd
		if c.Serving == "" {
			address = filepath.Join(plan.StateDir, "containerd", "containerd.sock")
			if daemon.Serving(ctx, address) != nil {
				return nil
			}
		}
		found, err := containerd.Spaces(ctx, address)
		if err != nil {
			return nil
		}
		return found
	})
	var all []Space
	for _, s := range found {
		space := Space{Name: s.Name}
		for _, o := range s.Containers {
			space.Cluster, space.Node = o.Attempt.Cluster, o.Attempt.Node
			space.Containers = append(space.Containers, SpaceContainer{
				ID: o.ID, Namespace: o.Attempt.Namespace, Task: o.Attempt.Task, Attempt: o.Attempt.Number, Running: o.Running,
			})
		}
		all = append(all, space)
	}
	return all
}
