package bench

import (
	"bufio"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	containerd "github.com/containerd/containerd/v2/client"
	"github.com/prometheus/procfs"
	"go.uber.org/zap"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/identity"
	"github.com/escher-sched/escher/e2e/bench/rig"
	"github.com/escher-sched/escher/nodeagent/fence/watchdog"
	ctd "github.com/escher-sched/escher/nodeagent/runtime/containerd"
	"github.com/escher-sched/escher/nodeagent/runtime/containerd/daemon"
	"github.com/escher-sched/escher/nodeagent/runtime/image"
	"github.com/escher-sched/escher/nodeagent/serve/nodeapi"
	"github.com/escher-sched/escher/types"
)

const (
	// agentSample is the duration of one sample: each contains equally many renewals and usage
	// samples.
	agentSample = 30 * time.Second
	// agentSettle is how long an agent is left alone before it counts as idle.
	agentSettle = 15 * time.Second
	// agentNode is the name of its node.
	agentNode = "bench"
)

// runIdleAgent measures the memory and CPU time of an agent on its own node, with its watchdog:
// without tasks, and with one sleeping container per task. etcd, scheduler and containerd are
// separate processes and do not count.
func runIdleAgent(ctx context.Context, cfg rig.Config) ([]rig.Row, error) {
	var rows []rig.Row
	err := rig.WithCluster(ctx, cfg, func(ctx context.Context, c *rig.Cluster) error {
		a, err := startAgent(ctx, c)
		if err != nil {
			return err
		}
		alone, err := a.idle(ctx, c.Config, "idle-agent")
		if err != nil {
			return err
		}
		alone.Tasks = 0
		if err := a.fill(ctx, c); err != nil {
			return err
		}
		full, err := a.idle(ctx, c.Config, "idle-agent-tasks")
		rows = []rig.Row{alone, full}
		return err
	})
	return rows, err
}

// agentMachine is an agent in its own process, on its own containerd.
type agentMachine struct {
	dir    string
	cmd    *exec.Cmd
	ended  chan struct{}
	client *controlplane.Client
	said   rig.Tail
}

// startAgent starts a scheduler and an agent, which end with the cluster, and returns when the
// agent is ready.
func startAgent(ctx context.Context, c *rig.Cluster) (*agentMachine, error) {
	cluster, err := identity.MakeClusterID(ctx, c.Store)
	if err != nil {
		return nil, err
	}
	if _, err := c.StartScheduler(rig.RoleScheduler, false); err != nil {
		return nil, err
	}
	// Socket paths must be short.
	dir, err := os.MkdirTemp(c.Config.Dir, "agent-")
	if err != nil {
		return nil, types.Errorf(types.Precondition, "make a directory in %s: %w", c.Config.Dir, err)
	}
	c.AtEnd(func() error { return os.RemoveAll(dir) })
	address, err := startContainerd(ctx, c, dir, cluster)
	if err != nil {
		return nil, err
	}
	a := &agentMachine{dir: dir, ended: make(chan struct{})}
	if a.client, err = controlplane.New(c.Store, rig.Namespace); err != nil {
		return nil, err
	}
	return a, a.start(ctx, c, address)
}

// startContainerd runs a containerd until the cluster ends, which removes it completely.
func startContainerd(ctx context.Context, c *rig.Cluster, dir, cluster string) (address string, err error) {
	d, err := daemon.Ensure(ctx, daemon.Config{Dir: filepath.Join(dir, "c"), Logger: zap.NewNop()})
	if err != nil {
		return "", err
	}
	ctx, stop := context.WithCancel(context.WithoutCancel(ctx))
	ended := make(chan error, 1)
	go func() { ended <- d.Run(ctx) }()
	c.AtEnd(func() error {
		defer stop()
		last, cancel := context.WithTimeout(context.Background(), rig.StopWait)
		defer cancel()
		err := purge(last, d.Address(), cluster)
		stop()
		return errors.Join(err, <-ended)
	})
	return d.Address(), nil
}

// purge removes the remains of a cluster.
func purge(ctx context.Context, address, cluster string) error {
	raw, err := containerd.New(address)
	if err != nil {
		return err
	}
	names, err := raw.NamespaceService().List(ctx)
	errs := []error{err, raw.Close()}
	for _, name := range names {
		errs = append(errs, ctd.Purge(ctx, address, name, cluster))
	}
	return errors.Join(errs...)
}

// start starts the agent.
func (a *agentMachine) start(ctx context.Context, c *rig.Cluster, address string) error {
	// In its own process group, so that an interrupt does not reach it before its cluster.
	a.cmd = exec.Command(c.Config.Escher, "agent", "--endpoints", c.Endpoint, "--node", agentNode, "--state-dir", filepath.Join(a.dir, "s"),
		"--containerd", address, "--listen", "127.0.0.1:0", "--capacity", "cpu=1000,memory=1Ti", "--log-level", "error")
	a.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	a.cmd.Stderr = &a.said
	out, err := a.cmd.StdoutPipe()
	if err != nil {
		return err
	}
	c.Config.Say("starting %s", strings.Join(a.cmd.Args, " "))
	if err := a.cmd.Start(); err != nil {
		return types.Errorf(types.Precondition, "run %s: %w", c.Config.Escher, err)
	}
	ready := make(chan struct{})
	go a.listen(out, ready)
	c.AtEnd(a.stop)
	select {
	case <-ready:
		return a.load(ctx, c)
	case <-a.ended:
		return types.Errorf(types.Precondition, "the agent did not start: %s", a.said.String())
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// listen waits for its end, and closes ready once it is ready.
func (a *agentMachine) listen(out io.Reader, ready chan struct{}) {
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if strings.HasPrefix(lines.Text(), "ready") {
			close(ready)
		}
	}
	_ = a.cmd.Wait() // its output says why it ended
	close(a.ended)
}

// stop ends the agent.
func (a *agentMachine) stop() error {
	err := a.cmd.Process.Signal(os.Interrupt)
	select {
	case <-a.ended:
		return nil // it may have ended before
	case <-time.After(rig.StopWait):
		return errors.Join(err, a.cmd.Process.Kill())
	}
}

// load gives the node the image.
func (a *agentMachine) load(ctx context.Context, c *rig.Cluster) error {
	files, err := rig.TinyFiles(a.dir)
	if err != nil {
		return err
	}
	node, err := nodeapi.Dialer{Store: c.Store}.Dial(ctx, agentNode)
	if err != nil {
		return err
	}
	defer node.Close()
	r, w := io.Pipe()
	go func() { w.CloseWithError(image.Write(w, image.Spec{Name: rig.TinyImage, Files: files})) }()
	_, err = node.Load(ctx, r)
	return errors.Join(err, r.Close())
}

// fill runs the configured number of sleeping tasks.
func (a *agentMachine) fill(ctx context.Context, c *rig.Cluster) error {
	all := make([]controlplane.Submission, c.Config.Tasks)
	for i := range all {
		all[i] = rig.TinyTask("pause")
	}
	c.Config.Say("starting %d containers", len(all))
	launched, err := a.client.LaunchJob(ctx, controlplane.Job{Name: "pause", Tasks: all})
	if err != nil {
		return err
	}
	_, err = a.client.Wait(ctx, controlplane.UntilRunning, launched.Tasks...)
	return err
}

// idle leaves the agent alone and measures its usage.
func (a *agentMachine) idle(ctx context.Context, cfg rig.Config, name string) (rig.Row, error) {
	if err := rig.Sleep(ctx, agentSettle); err != nil {
		return rig.Row{}, err
	}
	beside, err := a.watchdogs()
	if err != nil {
		return rig.Row{}, err
	}
	own := make(figureLists)
	for i := range cfg.Rounds {
		found, err := take(ctx, agentSample, a.cmd.Process.Pid, beside)
		if err != nil {
			return rig.Row{}, err
		}
		cfg.Say("%s, sample %d of %d: %.1f MiB, %.2f %% of a core; watchdog %.1f MiB, %.2f %%", name, i+1, cfg.Rounds,
			found["agent_mib"], found["agent_core_percent"], found["watchdog_mib"], found["watchdog_core_percent"])
		own.add(found)
	}
	row := rig.NewRow(cfg, name, "MiB", own["agent_mib"])
	for figure, values := range own {
		row.AddDetail(figure, values)
	}
	return *row.Require(cfg.Must, rig.Target{AtMost: true, Must: 60, Unit: " MiB"}, rig.Target{Figure: "agent_core_percent", AtMost: true, Must: 0.5, Unit: " %"}), nil
}

// figureLists are figures of several samples, by name.
type figureLists map[string][]float64

func (l figureLists) add(f rig.Figures) {
	for name, x := range f {
		l[name] = append(l[name], x)
	}
}

// take measures the usage of the agent and the other processes for a period.
func take(ctx context.Context, d time.Duration, agent int, beside []int) (rig.Figures, error) {
	cpu := func() (own, others time.Duration, err error) {
		if own, err = rig.CPUOf(agent); err != nil {
			return 0, 0, err
		}
		for _, pid := range beside {
			t, err := rig.CPUOf(pid)
			if err != nil {
				return 0, 0, err
			}
			others += t
		}
		return own, others, nil
	}
	own, others, err := cpu()
	if err != nil {
		return nil, err
	}
	began := time.Now()
	if err := rig.Sleep(ctx, d); err != nil {
		return nil, err
	}
	ownAfter, othersAfter, err := cpu()
	if err != nil {
		return nil, err
	}
	percent := func(t time.Duration) float64 { return 100 * t.Seconds() / time.Since(began).Seconds() }
	found := rig.Figures{"agent_core_percent": percent(ownAfter - own), "watchdog_core_percent": percent(othersAfter - others)}
	if found["agent_mib"], err = resident(agent); err != nil {
		return nil, err
	}
	for _, pid := range beside {
		mib, err := resident(pid)
		if err != nil {
			return nil, err
		}
		found["watchdog_mib"] += mib
	}
	return found, nil
}

// resident returns the resident memory of a process, in MiB.
func resident(pid int) (float64, error) {
	proc, err := procfs.NewProc(pid)
	if err != nil {
		return 0, types.Errorf(types.Internal, "look at process %d: %w", pid, err)
	}
	s, err := proc.NewStatus()
	if err != nil {
		return 0, types.Errorf(types.Internal, "look at process %d: %w", pid, err)
	}
	return float64(s.VmRSS) / (1 << 20), nil
}

// watchdogs returns the watchdogs of the agent's node.
func (a *agentMachine) watchdogs() ([]int, error) {
	all, err := procfs.AllProcs()
	if err != nil {
		return nil, types.Errorf(types.Internal, "list processes: %w", err)
	}
	var pids []int
	for _, p := range all {
		args, err := p.CmdLine()
		if err == nil && len(args) > 2 && args[1] == watchdog.Subcommand && strings.Contains(strings.Join(args[2:], " "), a.dir) {
			pids = append(pids, p.PID)
		}
	}
	return pids, nil
}
