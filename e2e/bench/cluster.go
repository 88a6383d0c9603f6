package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/pprof"
	"slices"
	"strings"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/audit"
	"github.com/escher-sched/escher/controlplane/etcdstore"
	sim "github.com/escher-sched/escher/e2e/hollow"
	"github.com/escher-sched/escher/types"
)

// cluster is a measured cluster: its etcd and schedulers are separate processes.
type cluster struct {
	cfg Config
	// store is the client of the load, separate from the watchers'.
	store *etcdstore.Store
	// watched is the client of the watchers.
	watched *etcdstore.Store
	// endpoint is the address of etcd.
	endpoint string
	// sessions are the sessions of the nodes.
	sessions map[string]int64

	// atEnd runs before the processes are ended, last first.
	atEnd []func() error
	// processes are the started processes that have not been ended.
	processes []*process
	// ctx ends, with the cause, when a process ends unexpectedly.
	ctx    context.Context
	failed context.CancelCauseFunc
}

// onCluster measures on a new cluster, which has only an etcd. f starts what it needs, and adds its
// figures. Then the state is audited: violations are counted in the figures and reported.
func onCluster(ctx context.Context, cfg Config, f func(context.Context, *cluster, figures) error) (figures, error) {
	found := make(figures)
	err := withCluster(ctx, cfg, func(ctx context.Context, c *cluster) error {
		if err := f(ctx, c, found); err != nil {
			return err
		}
		return c.audit(ctx, found)
	})
	if err != nil {
		return nil, err
	}
	return found, nil
}

// withCluster runs f with a cluster that is removed afterwards.
func withCluster(ctx context.Context, cfg Config, f func(context.Context, *cluster) error) error {
	return withDirectory(cfg, func(dir string) (err error) {
		c := &cluster{cfg: cfg}
		c.ctx, c.failed = context.WithCancelCause(ctx)
		defer c.failed(nil)
		defer func() { err = errors.Join(err, c.down()) }()
		if err := c.up(dir); err != nil {
			return err
		}
		err = f(c.ctx, c)
		// The end of a process says more than its consequences.
		if cause := context.Cause(c.ctx); cause != nil {
			return cause
		}
		return err
	})
}

// up starts etcd and connects to it.
func (c *cluster) up(dir string) error {
	etcd, err := c.start(roleEtcd, roleEtcd, roleConfig{Dir: dir, Ops: c.cfg.Ops})
	if err != nil {
		return err
	}
	if c.endpoint, err = etcd.ready(c.ctx); err != nil {
		return err
	}
	if c.store, err = c.dial(); err != nil {
		return err
	}
	c.watched, err = c.dial()
	return err
}

// dial connects to etcd; the caller closes the client.
func (c *cluster) dial(opts ...etcdstore.Option) (*etcdstore.Store, error) {
	return etcdstore.Dial(c.ctx, etcdstore.Config{Endpoints: []string{c.endpoint}, Limits: limitsOf(c.cfg.Ops), Options: opts})
}

// start starts a part, and returns at once. If the part ends by itself, the whole cluster ends.
func (c *cluster) start(role, name string, rc roleConfig) (*process, error) {
	p, err := launch(c.cfg, role, name, rc)
	if err != nil {
		return nil, err
	}
	c.processes = append(c.processes, p)
	go func() {
		<-p.ended
		if p.lost() {
			c.failed(p.why(nil))
		}
	}()
	return p, nil
}

// launchScheduler starts a scheduler and returns at once.
func (c *cluster) launchScheduler(name string, shared bool) (*process, error) {
	return c.start(roleScheduler, name, roleConfig{Endpoint: c.endpoint, Ops: c.cfg.Ops, Name: name, Shared: shared})
}

// startScheduler starts a scheduler and waits until it has listed everything.
func (c *cluster) startScheduler(name string, shared bool) (*process, error) {
	p, err := c.launchScheduler(name, shared)
	if err != nil {
		return nil, err
	}
	_, err = p.ready(c.ctx)
	return p, err
}

// end ends a process in order, or as if its machine failed.
func (c *cluster) end(p *process, kill bool) {
	for i, x := range c.processes {
		if x == p {
			c.processes = append(c.processes[:i:i], c.processes[i+1:]...)
			break
		}
	}
	if kill {
		p.kill()
	} else {
		p.stop()
	}
}

// hollow starts hollow agents, and schedulers and collectors for them. They end after the last
// audit, which would otherwise find unfinished work.
func (c *cluster) hollow(ctx context.Context, cfg sim.Config) (*sim.Cluster, error) {
	cfg.Store = c.store
	h, err := sim.Start(ctx, cfg)
	if err == nil {
		c.atEnd = append(c.atEnd, h.Close)
	}
	return h, err
}

// down ends everything, etcd last.
func (c *cluster) down() error {
	var errs []error
	for _, f := range slices.Backward(c.atEnd) {
		errs = append(errs, f())
	}
	for len(c.processes) > 1 {
		c.end(c.processes[len(c.processes)-1], false)
	}
	for _, s := range []*etcdstore.Store{c.watched, c.store} {
		if s != nil {
			errs = append(errs, s.Close())
		}
	}
	for len(c.processes) > 0 { // its data is deleted
		c.end(c.processes[0], true)
	}
	return errors.Join(errs...)
}

// shown bounds the audit findings that are reported.
const shown = 10

// audit checks the state.
func (c *cluster) audit(ctx context.Context, found figures) error {
	report, err := audit.Run(ctx, c.store)
	if err != nil {
		return err
	}
	// Hollow tasks run nothing: they have no specs, and no job is written.
	wrong := slices.DeleteFunc(report.Findings, func(f audit.Finding) bool { return f.Guarantee == audit.SpecKept || f.Guarantee == audit.JobWhole })
	found[violations] = float64(len(wrong))
	for _, f := range wrong[:min(shown, len(wrong))] {
		c.cfg.progress.say("violation: %s", f)
	}
	return nil
}

// usage is the cost of a time window.
type usage struct {
	wall time.Duration
	// cpu is the CPU time of each process by name; this process is load.
	cpu map[string]time.Duration
}

// load is the name of this process.
const load = "load"

// window runs f, and returns its cost; it writes profiles if requested.
func (c *cluster) window(ctx context.Context, f func(context.Context) error) (u usage, err error) {
	ended, err := c.profile(ctx)
	if err != nil {
		return u, err
	}
	before, err := c.cpu()
	if err != nil {
		return u, errors.Join(err, ended())
	}
	began := time.Now()
	err = f(ctx)
	u.wall = time.Since(began)
	after, cpuErr := c.cpu()
	u.cpu = make(map[string]time.Duration)
	for name, t := range after {
		u.cpu[name] = t - before[name]
	}
	return u, errors.Join(err, cpuErr, ended())
}

// cpu returns the CPU time of each process so far.
func (c *cluster) cpu() (map[string]time.Duration, error) {
	all := make(map[string]time.Duration)
	for _, p := range c.processes {
		t, err := p.cpu()
		if err != nil {
			return nil, err
		}
		all[p.name] = t
	}
	own, err := cpuOf(0)
	all[load] = own
	return all, err
}

// add adds the cost of n tasks to the figures, by kind of process, and the memory.
func (c *cluster) add(found figures, u usage, n int) error {
	for _, p := range c.processes {
		_, most, err := p.memory()
		if err != nil {
			return err
		}
		found[p.name+"_mib"] = float64(most) / (1 << 20)
	}
	for name, t := range u.cpu {
		each := float64(t.Nanoseconds()) / 1000 / float64(n)
		found[name+"_cpu_us"] = each
		if strings.HasPrefix(name, roleScheduler+"-") {
			found[roleScheduler+"_cpu_us"] += each // the sum over all schedulers
		}
	}
	return nil
}

// profile begins profiles of all processes; ended ends them.
func (c *cluster) profile(ctx context.Context) (ended func() error, err error) {
	if c.cfg.Profile == "" {
		return func() error { return nil }, nil
	}
	parts, err := c.profileParts(ctx)
	if err != nil {
		return nil, err
	}
	at, err := c.profilePath(load)
	if err != nil {
		return nil, err
	}
	own, err := beginProfile(at)
	if err != nil {
		return nil, err
	}
	return func() error {
		pprof.StopCPUProfile()
		return errors.Join(own.Close(), parts())
	}, nil
}

// profileParts begins profiles of all processes but this one.
func (c *cluster) profileParts(ctx context.Context) (ended func() error, err error) {
	if err := os.MkdirAll(c.cfg.Profile, 0o755); err != nil {
		return nil, types.Errorf(types.Precondition, "profile: %w", err)
	}
	for _, p := range c.processes {
		at, err := c.profilePath(p.name)
		if err != nil {
			return nil, err
		}
		if _, err := p.ask(ctx, order{Do: doProfile, Path: at}); err != nil {
			return nil, err
		}
	}
	return func() error {
		var errs []error
		for _, p := range c.processes {
			_, err := p.ask(ctx, order{Do: doEnd})
			errs = append(errs, err)
		}
		return errors.Join(errs...)
	}, nil
}

// profilePath is the path of the profile of a process.
func (c *cluster) profilePath(name string) (string, error) {
	return filepath.Abs(filepath.Join(c.cfg.Profile, fmt.Sprintf("%s.%s.%s.prof", c.cfg.Scenario, c.cfg.label, name)))
}

// put commits one key.
func (c *cluster) put(ctx context.Context, key string, m types.Message) (revision int64, err error) {
	x := controlplane.NewChange(controlplane.NewBatch())
	x.Put(key, m)
	res, err := controlplane.Commit(ctx, c.store, x.Txn())
	return res.Revision, err
}
