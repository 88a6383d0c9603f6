package parts

import (
	"context"
	"crypto/tls"
	"net"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/escher-sched/escher/cmd/escher/internal/ops"
	"github.com/escher-sched/escher/cmd/escher/internal/policylog"
	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/accounting"
	"github.com/escher-sched/escher/controlplane/etcdstore"
	"github.com/escher-sched/escher/controlplane/server"
	"github.com/escher-sched/escher/controlplane/supervise"
	"github.com/escher-sched/escher/esl/builtin"
	"github.com/escher-sched/escher/esl/collect"
	"github.com/escher-sched/escher/esl/decisions"
	"github.com/escher-sched/escher/esl/keep"
	"github.com/escher-sched/escher/nodeagent/serve/nodeapi"
	"github.com/escher-sched/escher/scheduler"
	"github.com/escher-sched/escher/scheduler/search"
	"github.com/escher-sched/escher/types"
)

// Server is a scheduler and a garbage collector. A cluster runs one or a few.
type Server struct {
	Store *etcdstore.Store
	// Name distinguishes it from the other servers of the cluster; empty means there are none.
	Name string
	// Version is that of this program.
	Version string
	// Placement says which of the fitting nodes is taken.
	Placement search.Choice
	// Collect configures how waiting gangs and tasks collect free capacity.
	Collect collect.Config
	// MaxPending is how many tasks may wait before submission is slowed; 0 means the default.
	MaxPending int
	// EtcdQuota is the most bytes in the database of an etcd that does not report it; 0 means that
	// etcd reports it.
	EtcdQuota int64
	// NodeTLS has the authorities to trust for nodes; nil means those of the system.
	NodeTLS *tls.Config
	// Tunnel connects to nodes that open no port; nil means that these are not reached.
	Tunnel func(ctx context.Context, node string) (net.Conn, error)
	// History records ended tasks; nil keeps no history.
	History *accounting.Recorder
	// Decisions gets the decisions of policies. Address is where others read them, and Token lets them;
	// both are empty if others find that otherwise.
	Decisions      *decisions.Log
	Address, Token string

	Log     *zap.Logger
	Health  *ops.Health
	Metrics prometheus.Registerer
}

// Start starts its components. The schedulers of several servers share the namespaces; one garbage
// collector and drainer works at a time.
func (s Server) Start(stack *Stack) error {
	counted, decisions := server.NewMetrics(), scheduler.NewMetrics()
	for _, m := range []prometheus.Collector{counted, decisions} {
		if err := s.Metrics.Register(m); err != nil {
			return types.Errorf(types.Internal, "register metrics: %w", err)
		}
	}
	stack.Start("garbage", server.CollectGarbage)
	epochs := &server.Epochs{Store: s.Store, Etcd: server.AskEtcd(s.Store.Client()), Log: s.Log.Named("epoch")}
	stack.Start("epoch", epochs.Run)
	pulse := s.Health.Part("scheduler")
	values := new(quarantine)
	s.Health.Warn("store", values.warning)
	stack.Start("scheduler", func(ctx context.Context) error {
		defer pulse.Stop()
		cfg := scheduler.Config{Name: s.Name, Version: s.Version, Shared: s.Name != "", Placement: s.Placement, Beat: pulse.Run, Metrics: decisions, Quarantined: values.set}
		return epochs.During(ctx, func(ctx context.Context) error { return scheduler.Run(ctx, s.Store, cfg, s.Log.Named("scheduler")) })
	})
	if s.History != nil {
		stack.Start("history", func(ctx context.Context) error { return epochs.During(ctx, s.History.Run) })
	}
	s.collect(stack, epochs, counted)
	s.keep(stack, s.Store, epochs)
	return nil
}

// collect starts the garbage collector and the drainer, which work while this server has their
// role. An error of one of them ends neither the role nor the other.
func (s Server) collect(stack *Stack, epochs *server.Epochs, counted *server.Metrics) {
	beat, drains := s.Health.Standby("collector"), s.Health.Standby("drainer")
	maintenance := server.NewMaintenance(s.Store.Client(), s.EtcdQuota)
	collect := func(ctx context.Context, guard []controlplane.Compare) error {
		defer beat.Stop()
		opts := server.Options{Metrics: counted, Beat: beat.Run, Logger: s.Log.Named("collector")}
		if s.History != nil {
			opts.Recorded = s.History.Recorded
		}
		c, err := server.NewCollector(s.Store, maintenance, s.policy(), guard, opts)
		if err != nil {
			return err
		}
		return c.Run(ctx)
	}
	s.rescue(stack, &server.Rescue{Store: s.Store, Maintenance: maintenance, Collect: collect, Metrics: counted, Log: s.Log.Named("collector")})
	var guard []controlplane.Compare
	collector := stack.Component("collector", func(ctx context.Context) error { return collect(ctx, guard) })
	drainer := stack.Component("drainer", func(ctx context.Context) error {
		defer drains.Stop()
		return server.NewDrainer(s.Store, guard, server.Options{Metrics: counted, Beat: drains.Run, Logger: s.Log.Named("drainer")}).Run(ctx)
	})
	both := func(ctx context.Context, led []controlplane.Compare) error {
		guard = led // nothing from the last time runs any more
		g, ctx := supervise.WithContext(ctx)
		for _, c := range []*supervise.Component{collector, drainer} {
			c.Ends = func(err error) bool { return types.Is(err, types.Conflict) } // the role is lost
			g.Go(func() error { return c.Keep(ctx) })
		}
		return g.Wait()
	}
	stack.Start("role of the collector", func(ctx context.Context) error {
		return epochs.During(ctx, func(ctx context.Context) error { return s.lead(ctx, s.Store, collectorRole, both) })
	})
}

// rescue starts the component that frees a full database while no server is the collector.
func (s Server) rescue(stack *Stack, r *server.Rescue) {
	if s.Name != "" {
		r.Role = collectorRole
	}
	s.Health.Warn("database", r.Warning)
	stack.Start("rescue of the database", r.Run)
}

// keep starts the component that runs the policies of jobs without an attached application.
func (s Server) keep(stack *Stack, store controlplane.Store, epochs *server.Epochs) {
	beat := s.Health.Standby("policies")
	usage := &nodeapi.Reader{Dialer: nodeapi.Dialer{Store: store, TLS: s.NodeTLS, Tunnel: s.Tunnel}}
	keep := func(ctx context.Context, guard []controlplane.Compare) error {
		defer beat.Stop()
		held := make(controlplane.ReadSet)
		for _, x := range guard { // a leader's key is written once
			held[x.Key] = x.Revision
		}
		return keep.Run(ctx, store, keep.Options{
			Kinds: builtin.Kinds(), Collect: &s.Collect, Measure: usage.Measured, Guard: held, Beat: beat.Run, Log: s.Log.Named("policies"), Decisions: s.Decisions,
		})
	}
	stack.Start("policies", func(ctx context.Context) error {
		return epochs.During(ctx, func(ctx context.Context) error { return s.lead(ctx, store, policylog.Role, keep) })
	})
}

// lead runs a function while this server has a role. A server without a name has all roles.
func (s Server) lead(ctx context.Context, store controlplane.Store, role string, run func(context.Context, []controlplane.Compare) error) error {
	if s.Name == "" {
		return run(ctx, nil)
	}
	holder := &types.Leader{Holder: s.Name, Version: s.Version}
	if role == policylog.Role {
		holder.Address, holder.Token = s.Address, s.Token
	}
	return server.Lead(ctx, store, role, holder, run)
}

// policy is that of its garbage collector.
func (s Server) policy() server.Policy {
	p := server.DefaultPolicy()
	if s.MaxPending != 0 {
		p.MaxPending = s.MaxPending
	}
	return p
}

// collectorRole is the role of one garbage collector and drainer.
const collectorRole = "collector"
