package connected

import (
	"context"
	"crypto/tls"
	"fmt"
	"net/http"
	"os"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/escher-sched/escher/api/certs"
	"github.com/escher-sched/escher/e2e/bench/rig"
	"github.com/escher-sched/escher/types"
)

// The roles of this package.
const (
	roleServer = "server"
	roleAgents = "agents"
)

const (
	// servers is the number of servers, with as many processes of agents: a server takes 4096 agents.
	servers = 3
	// idleFor is how long the idle cost is measured for each agent, up to idleMost.
	idleFor  = 20 * time.Millisecond
	idleMost = 20 * time.Second
	// askers is how many ask at once.
	askers = 4
)

// Parts are the parts of a cluster that this package adds.
func Parts() rig.Parts { return rig.Parts{roleServer: serverPart, roleAgents: agentsPart} }

// fleet is servers with agents.
type fleet struct {
	at      []string
	servers []*rig.Process
	ca      *certs.Authority
	// took is the time that all agents took to connect.
	took time.Duration
	// before is the memory of the servers without agents, in MiB.
	before float64
}

// Attend starts servers, and for each node an agent that reaches the cluster by one of them. It waits until all
// are alive and have their tunnels.
func Attend(ctx context.Context, c *rig.Cluster, h *rig.Hollow) error {
	_, err := connect(ctx, c, len(h.Nodes))
	return err
}

func connect(ctx context.Context, c *rig.Cluster, nodes int) (*fleet, error) {
	dir, err := os.MkdirTemp(c.Config.Dir, "escher-bench-ca-")
	if err != nil {
		return nil, types.Errorf(types.Precondition, "make certificates: %w", err)
	}
	c.AtEnd(func() error { return os.RemoveAll(dir) })
	f := new(fleet)
	now := time.Now()
	if f.ca, err = certs.Open(dir, now); err == nil {
		err = f.ca.Server(dir, certFile, keyFile, []string{host}, now, life)
	}
	if err != nil {
		return nil, err
	}
	for i := range min(servers, nodes) {
		p, err := c.Start(roleServer, fmt.Sprintf("%s-%d", roleServer, i), rig.RoleConfig{Endpoint: c.Endpoint, Ops: c.Config.Ops, Dir: dir})
		if err != nil {
			return nil, err
		}
		at, err := p.Ready(ctx)
		if err != nil {
			return nil, err
		}
		f.servers, f.at = append(f.servers, p), append(f.at, at)
	}
	if f.before, err = c.MemoryOf(f.servers); err != nil {
		return nil, err
	}
	return f, f.join(ctx, c, dir, nodes)
}

// join starts the agents, and waits for them.
func (f *fleet) join(ctx context.Context, c *rig.Cluster, dir string, nodes int) error {
	for i, at := range f.at {
		p, err := c.Start(roleAgents, fmt.Sprintf("%s-%d", roleAgents, i), rig.RoleConfig{
			Endpoint: c.Endpoint, Ops: c.Config.Ops, Dir: dir, Server: at, Share: rig.Share{First: i, Of: len(f.at), Nodes: nodes},
		})
		if err == nil {
			_, err = p.Ready(ctx)
		}
		if err != nil {
			return err
		}
	}
	began := time.Now()
	for {
		open := 0
		for _, p := range f.servers {
			stats, err := p.Stats(ctx)
			if err != nil {
				return err
			}
			open += int(stats[held])
		}
		alive, err := c.CountAlive(ctx)
		if err != nil {
			return err
		}
		if open == nodes && alive == nodes {
			f.took = time.Since(began)
			return nil
		}
		c.Config.Say("agents: %d alive, %d tunnels of %d", alive, open, nodes)
		if err := rig.Sleep(ctx, time.Second); err != nil {
			return err
		}
	}
}

// Run measures what agents cost a server: until all are connected, and idle.
func Run(ctx context.Context, cfg rig.Config) ([]rig.Row, error) {
	s, err := rig.Interleave(ctx, cfg, rig.Arm{Name: "connected", Measure: measure})
	if err != nil {
		return nil, err
	}
	row := rig.NewRow(cfg, "connected", "KiB/agent", s.Of("connected", "kib"))
	for _, name := range []string{"connect_s", "idle_percent", "etcd_idle_percent", "ask_p50_ms", "ask_p99_ms"} {
		row.AddDetail(name, s.Of("connected", name))
	}
	return []rig.Row{*row.AddViolations(s.Violations("connected"))}, nil
}

func measure(ctx context.Context, cfg rig.Config) (rig.Figures, error) {
	return rig.OnCluster(ctx, cfg, func(ctx context.Context, c *rig.Cluster, found rig.Figures) error {
		h, err := rig.NewHollow(cfg)
		if err != nil {
			return err
		}
		h.Absent = true
		if err := c.LoadNodes(ctx, h); err != nil {
			return err
		}
		f, err := connect(ctx, c, len(h.Nodes))
		if err != nil {
			return err
		}
		u, err := c.Window(ctx, func(ctx context.Context) error {
			return rig.Sleep(ctx, min(idleMost, idleFor*time.Duration(len(h.Nodes))))
		})
		if err != nil {
			return err
		}
		var used time.Duration
		for name, t := range u.CPU {
			if strings.HasPrefix(name, roleServer+"-") {
				used += t
			}
		}
		now, err := c.MemoryOf(f.servers)
		if err != nil {
			return err
		}
		found["connect_s"], found["kib"] = f.took.Seconds(), (now-f.before)*1024/float64(len(h.Nodes))
		found["idle_percent"], found["etcd_idle_percent"] = 100*used.Seconds()/u.Wall.Seconds(), 100*u.CPU[rig.RoleEtcd].Seconds()/u.Wall.Seconds()
		return f.ask(ctx, len(h.Nodes), cfg.Tasks, found)
	})
}

// ask times n answers of agents, which come by their tunnels.
func (f *fleet) ask(ctx context.Context, nodes, n int, found rig.Figures) error {
	web := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: askers, TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: f.ca.Pool()}}}
	defer web.CloseIdleConnections()
	var took [askers]rig.Durations
	g, ctx := errgroup.WithContext(ctx)
	for who := range took {
		g.Go(func() error {
			for i := who; i < n; i += askers {
				node := i % nodes
				err := took[who].Time(func() error { return rig.Get(ctx, web, f.at[node%len(f.at)]+"/ask/"+rig.NodeName(node)) })
				if err != nil {
					return err
				}
			}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		return err
	}
	var all rig.Durations
	for _, d := range took {
		all = append(all, d...)
	}
	found["ask_p50_ms"], found["ask_p99_ms"] = all.Quantile(0.5), all.Quantile(0.99)
	return nil
}
