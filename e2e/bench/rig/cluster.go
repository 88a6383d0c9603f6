package rig

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

// Cluster is a measured cluster: its etcd and schedulers are separate processes.
type Cluster struct {
	// Config is the configuration of the measurement.
	Config Config
	// Store is the client of the load, separate from the watchers'.
	Store *etcdstore.Store
	// Watched is the client of the watchers.
	Watched *etcdstore.Store
	// Endpoint is the address of etcd, and gateway where its parts reach it, with a token.
	Endpoint       string
	gateway, token string
	// Sessions are the sessions of the nodes, by name.
	Sessions map[string]int64

	// atEnd runs before the processes are ended, last first.
	atEnd []func() error
	// processes are the started processes that have not been ended.
	processes []*Process
	// ctx ends, with the cause, when a process ends unexpectedly.
	ctx    context.Context
	failed context.CancelCauseFunc
}

// OnCluster measures on a new cluster, which has only an etcd. f starts what it needs, and adds its
// figures. Then the state is audited: violations are counted in the figures and reported.
func OnCluster(ctx context.Context, cfg Config, f func(context.Context, *Cluster, Figures) error) (Figures, error) {
	found := make(Figures)
	err := WithCluster(ctx, cfg, func(ctx context.Context, c *Cluster) error {
		if err := f(ctx, c, found); err != nil {
			return err
		}
		return c.Audit(ctx, found)
	})
	if err != nil {
		return nil, err
	}
	return found, nil
}

// WithCluster runs f with a cluster that is removed afterwards.
func WithCluster(ctx context.Context, cfg Config, f func(context.Context, *Cluster) error) error {
	return WithDirectory(cfg, func(dir string) (err error) {
		c := &Cluster{Config: cfg}
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
func (c *Cluster) up(dir string) error {
	etcd, err := c.Start(RoleEtcd, RoleEtcd, RoleConfig{Dir: dir, Ops: c.Config.Ops})
	if err != nil {
		return err
	}
	if c.Endpoint, err = etcd.Ready(c.ctx); err != nil {
		return err
	}
	if c.Store, err = c.dial(); err != nil {
		return err
	}
	if c.Watched, err = c.dial(); err != nil {
		return err
	}
	c.gateway = c.Endpoint
	if c.Config.Gateway {
		return c.startGateway()
	}
	return nil
}

// dial connects to etcd; the caller closes the client.
func (c *Cluster) dial(opts ...etcdstore.Option) (*etcdstore.Store, error) {
	return c.dialAs(c.Endpoint, opts...)
}

// dialAs connects to an endpoint; the caller closes the client.
func (c *Cluster) dialAs(endpoint string, opts ...etcdstore.Option) (*etcdstore.Store, error) {
	return etcdstore.Dial(c.ctx, etcdstore.Config{Endpoints: []string{endpoint}, Limits: limitsOf(c.Config.Ops), Options: opts})
}

// Start starts a part, and returns at once. If the part ends by itself, the whole cluster ends.
func (c *Cluster) Start(role, name string, rc RoleConfig) (*Process, error) {
	p, err := Launch(c.Config, role, name, rc)
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

// StartRoles starts a part for each role, under its name, and waits until it works.
func (c *Cluster) StartRoles(ctx context.Context, roles ...string) error {
	for _, role := range roles {
		p, err := c.Start(role, role, RoleConfig{Endpoint: c.gateway, Token: c.token, Ops: c.Config.Ops, Name: role})
		if err == nil {
			_, err = p.Ready(ctx)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// launchScheduler starts a scheduler and returns at once.
func (c *Cluster) launchScheduler(name string, shared bool) (*Process, error) {
	return c.Start(RoleScheduler, name, RoleConfig{Endpoint: c.gateway, Token: c.token, Ops: c.Config.Ops, Name: name, Shared: shared})
}

// StartScheduler starts a scheduler and waits until it has listed everything.
func (c *Cluster) StartScheduler(name string, shared bool) (*Process, error) {
	p, err := c.launchScheduler(name, shared)
	if err != nil {
		return nil, err
	}
	_, err = p.Ready(c.ctx)
	return p, err
}

// End ends a process in order, or as if its machine failed.
func (c *Cluster) End(p *Process, kill bool) {
	for i, x := range c.processes {
		if x == p {
			c.processes = append(c.processes[:i:i], c.processes[i+1:]...)
			break
		}
	}
	if kill {
		p.Kill()
	} else {
		p.stop()
	}
}

// StartHollow starts hollow agents, and schedulers and collectors for them. They end after the last
// audit, which would otherwise find unfinished work.
func (c *Cluster) StartHollow(ctx context.Context, cfg sim.Config) (*sim.Cluster, error) {
	cfg.Store = c.Store
	h, err := sim.Start(ctx, cfg)
	if err == nil {
		c.atEnd = append(c.atEnd, h.Close)
	}
	return h, err
}

// AtEnd registers a function that the cluster calls before it ends its processes. It calls the last
// one first.
func (c *Cluster) AtEnd(f func() error) { c.atEnd = append(c.atEnd, f) }

// down ends everything, etcd last.
func (c *Cluster) down() error {
	var errs []error
	for _, f := range slices.Backward(c.atEnd) {
		errs = append(errs, f())
	}
	for len(c.processes) > 1 {
		c.End(c.processes[len(c.processes)-1], false)
	}
	for _, s := range []*etcdstore.Store{c.Watched, c.Store} {
		if s != nil {
			errs = append(errs, s.Close())
		}
	}
	for len(c.processes) > 0 { // its data is deleted
		c.End(c.processes[0], true)
	}
	return errors.Join(errs...)
}

// shown bounds the audit findings that are reported.
const shown = 10

// Audit checks the state, and adds the number of violations to the figures.
func (c *Cluster) Audit(ctx context.Context, found Figures) error {
	report, err := audit.Run(ctx, c.Store)
	if err != nil {
		return err
	}
	// Hollow tasks run nothing: they have no specs, and no job is written.
	wrong := slices.DeleteFunc(report.Findings, func(f audit.Finding) bool { return f.Guarantee == audit.SpecKept || f.Guarantee == audit.JobWhole })
	found[Violations] = float64(len(wrong))
	for _, f := range wrong[:min(shown, len(wrong))] {
		c.Config.Say("violation: %s", f)
	}
	return nil
}

// Usage is the cost of a time window.
type Usage struct {
	// Wall is its duration.
	Wall time.Duration
	// CPU is the CPU time of each process by name; this process is load.
	CPU map[string]time.Duration
}

// load is the name of this process.
const load = "load"

// Window runs f, and returns its cost; it writes profiles if requested.
func (c *Cluster) Window(ctx context.Context, f func(context.Context) error) (u Usage, err error) {
	ended, err := c.Profile(ctx)
	if err != nil {
		return u, err
	}
	before, err := c.cpu()
	if err != nil {
		return u, errors.Join(err, ended())
	}
	began := time.Now()
	err = f(ctx)
	u.Wall = time.Since(began)
	after, cpuErr := c.cpu()
	u.CPU = make(map[string]time.Duration)
	for name, t := range after {
		u.CPU[name] = t - before[name]
	}
	return u, errors.Join(err, cpuErr, ended())
}

// cpu returns the CPU time of each process so far.
func (c *Cluster) cpu() (map[string]time.Duration, error) {
	all := make(map[string]time.Duration)
	for _, p := range c.processes {
		t, err := p.cpu()
		if err != nil {
			return nil, err
		}
		all[p.name] = t
	}
	own, err := CPUOf(0)
	all[load] = own
	return all, err
}

// AddUsage adds the cost of n tasks to the figures, by kind of process, and the memory.
func (c *Cluster) AddUsage(found Figures, u Usage, n int) error {
	for _, p := range c.processes {
		_, most, err := p.memory()
		if err != nil {
			return err
		}
		found[p.name+"_mib"] = float64(most) / (1 << 20)
	}
	for name, t := range u.CPU {
		each := float64(t.Nanoseconds()) / 1000 / float64(n)
		found[name+"_cpu_us"] = each
		if strings.HasPrefix(name, RoleScheduler+"-") {
			found[RoleScheduler+"_cpu_us"] += each // the sum over all schedulers
		}
	}
	return nil
}

// AddMemory adds the resident memory of each process, and its peak, in MiB.
func (c *Cluster) AddMemory(found Figures) error {
	for _, p := range c.processes {
		now, most, err := p.memory()
		if err != nil {
			return err
		}
		found[p.name+"_mib"], found[p.name+"_most_mib"] = float64(now)/(1<<20), float64(most)/(1<<20)
	}
	return nil
}

// MemoryOf returns the resident memory of some processes, in MiB.
func (c *Cluster) MemoryOf(of []*Process) (mib float64, err error) {
	for _, p := range of {
		now, _, err := p.memory()
		if err != nil {
			return 0, err
		}
		mib += float64(now) / (1 << 20)
	}
	return mib, nil
}

// CountAlive returns the number of nodes that are alive.
func (c *Cluster) CountAlive(ctx context.Context) (int, error) {
	kvs, _, err := controlplane.ListAll(ctx, c.Store, controlplane.ListOptions{Prefix: controlplane.Prefix(controlplane.Alive), KeysOnly: true})
	return len(kvs), err
}

// Profile begins profiles of all processes; ended ends them.
func (c *Cluster) Profile(ctx context.Context) (ended func() error, err error) {
	if c.Config.Profile == "" {
		return func() error { return nil }, nil
	}
	parts, err := c.ProfileParts(ctx)
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

// ProfileParts begins profiles of all processes but this one.
func (c *Cluster) ProfileParts(ctx context.Context) (ended func() error, err error) {
	if err := os.MkdirAll(c.Config.Profile, 0o755); err != nil {
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
func (c *Cluster) profilePath(name string) (string, error) {
	return filepath.Abs(filepath.Join(c.Config.Profile, fmt.Sprintf("%s.%s.%s.prof", c.Config.Scenario, c.Config.Label, name)))
}
