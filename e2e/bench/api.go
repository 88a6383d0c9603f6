package bench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"github.com/escher-sched/escher/api/rest"
	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/etcdstore"
	"github.com/escher-sched/escher/e2e/bench/rig"
	"github.com/escher-sched/escher/types"
)

// roleAPI is a server of the HTTP API, for root.
const roleAPI = "api"

const (
	// apiFor is how long each number of clients asks, and apiPage how many tasks a list has.
	apiFor  = 5 * time.Second
	apiPage = 500
	// apiFloor is how many clients ask etcd at most: more are no faster, and with a million tasks it refuses them.
	apiFloor = 100
	// apiWatchers is how many clients follow a task each.
	apiWatchers = 10_000
)

// apiClients are the numbers of clients that ask at once.
func apiClients() []int { return []int{1, 100, 1000} }

// runAPI measures how fast a server answers questions about a full cluster, beside the same reads from etcd.
func runAPI(ctx context.Context, cfg rig.Config) ([]rig.Row, error) {
	s, err := rig.Interleave(ctx, cfg, rig.Arm{Name: "api", Measure: measureAPI})
	if err != nil {
		return nil, err
	}
	var rows []rig.Row
	for _, q := range questions(nil) {
		for _, n := range apiClients() {
			name := fmt.Sprintf("%s-%d", q.name, n)
			row := rig.NewRow(cfg, "api-"+name, "ms", s.Of("api", name+"_p50_ms")).
				AddDetail("p99_ms", s.Of("api", name+"_p99_ms")).AddDetail("rate", s.Of("api", name+"_rate")).
				AddDetail("of_etcd", rig.Ratios(s.Of("api", name+"_rate"), s.Of("api", name+"_etcd_rate")))
			if n == 1 {
				row.Require(cfg.Must, rig.Target{AtMost: true, Must: 50, Aim: 10, Unit: " ms"}, rig.Target{Figure: "p99_ms", AtMost: true, Must: 50, Aim: 20, Unit: " ms"})
			}
			rows = append(rows, *row)
		}
	}
	watch := rig.NewRow(cfg, "api-watch", "ms", s.Of("api", "watch_p50_ms")).AddDetail("p99_ms", s.Of("api", "watch_p99_ms")).
		AddDetail("watchers", s.Of("api", "watchers")).AddDetail("server_mib", s.Of("api", "api_mib")).AddDetail("server_most_mib", s.Of("api", "api_most_mib")).
		AddViolations(s.Violations("api"))
	return append(rows, *watch), nil
}

// question is a kind of request, with the reads from etcd that it takes at least.
type question struct {
	name string
	path func(i int) string
	etcd func(ctx context.Context, store controlplane.Store, i int) error
}

// questions are the kinds of requests; cfg says how large the cluster is.
func questions(cfg *rig.Config) []question {
	cfg = cmp.Or(cfg, &rig.Config{Tasks: 1})
	const tasks = "/v1/namespaces/" + rig.Namespace + "/tasks"
	list := func(ctx context.Context, store controlplane.Store, opts controlplane.ListOptions) error {
		_, err := store.List(ctx, opts)
		return err
	}
	return []question{
		{"ps", func(i int) string { return fmt.Sprintf("%s?limit=%d&phase=pending,bound,running", tasks, apiPage) }, func(ctx context.Context, store controlplane.Store, _ int) error {
			err := list(ctx, store, controlplane.ListOptions{Prefix: controlplane.Prefix(controlplane.Tasks, rig.Namespace), Limit: apiPage})
			if err == nil {
				err = list(ctx, store, controlplane.ListOptions{Prefix: controlplane.Prefix(controlplane.Statuses, rig.Namespace), Limit: apiPage})
			}
			return err
		}},
		{"describe", func(i int) string { return tasks + "/" + rig.TaskName(i%cfg.Tasks) }, func(ctx context.Context, store controlplane.Store, i int) error {
			id := rig.TaskName(i % cfg.Tasks)
			for _, key := range []string{controlplane.TaskKey(rig.Namespace, id), controlplane.StatusKey(rig.Namespace, id), controlplane.JobKey(rig.Namespace, "bench")} {
				if err := list(ctx, store, controlplane.ListOptions{Key: key}); err != nil {
					return err
				}
			}
			return nil
		}},
		{"why", func(int) string { return tasks + "/probe/why" }, func(ctx context.Context, store controlplane.Store, _ int) error {
			for _, kind := range []controlplane.Kind{controlplane.Nodes, controlplane.Alive, controlplane.Cordons, controlplane.Devices, controlplane.Allocated} {
				if err := list(ctx, store, controlplane.ListOptions{Prefix: controlplane.Prefix(kind)}); err != nil {
					return err
				}
			}
			return list(ctx, store, controlplane.ListOptions{Key: controlplane.TaskKey(rig.Namespace, "probe")})
		}},
	}
}

func measureAPI(ctx context.Context, cfg rig.Config) (rig.Figures, error) {
	return rig.OnCluster(ctx, cfg, func(ctx context.Context, c *rig.Cluster, found rig.Figures) error {
		if _, err := loadBound(ctx, c, cfg.Nodes, cfg.Tasks); err != nil {
			return err
		}
		// It asks for more than any node has.
		if _, err := c.Put(ctx, controlplane.TaskKey(rig.Namespace, "probe"), &types.Task{
			Name: "probe", Spec: rig.SpecDigest, Submitted: time.Now().UnixNano(), Requests: types.Requests{{Name: string(types.CPU), Amount: 90_000}},
		}); err != nil {
			return err
		}
		p, err := c.Start(roleAPI, roleAPI, rig.RoleConfig{Endpoint: c.Endpoint, Ops: cfg.Ops})
		if err != nil {
			return err
		}
		address, err := p.Ready(ctx)
		if err != nil {
			return err
		}
		web := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: slices.Max(apiClients()), MaxConnsPerHost: 0}}
		defer web.CloseIdleConnections()
		for _, q := range questions(&cfg) {
			for _, n := range apiClients() {
				name := fmt.Sprintf("%s-%d", q.name, n)
				ended, err := c.Profile(ctx)
				if err != nil {
					return err
				}
				served, err := askAll(ctx, n, apiFor, func(ctx context.Context, i int) error { return rig.Get(ctx, web, "http://"+address+q.path(i)) })
				if err = errors.Join(err, ended()); err != nil {
					return types.Errorf(types.ClassOf(err), "%s: %w", name, err)
				}
				found[name+"_p50_ms"], found[name+"_p99_ms"], found[name+"_rate"] = served.p50, served.p99, served.rate
				if err := c.AddMemory(found); err != nil {
					return err
				}
				cfg.Say("%s: p50 %.1f ms, p99 %.1f ms, %.0f/s", name, served.p50, served.p99, served.rate)
				raw, err := askAll(ctx, min(n, apiFloor), apiFor, func(ctx context.Context, i int) error { return q.etcd(ctx, c.Store, i) })
				if err != nil {
					return types.Errorf(types.ClassOf(err), "%s from etcd: %w", name, err)
				}
				found[name+"_etcd_rate"] = raw.rate
				if err := quiesce(ctx, c); err != nil {
					return err
				}
			}
		}
		if err := measureWatchers(ctx, c, web, address, found); err != nil {
			return err
		}
		return c.AddMemory(found)
	})
}

// quiesce waits until etcd has dealt with the requests that were given up.
func quiesce(ctx context.Context, c *rig.Cluster) error {
	const quick = 5
	for {
		var took rig.Durations
		for range 3 {
			if err := took.Time(func() error {
				_, err := c.Store.List(ctx, controlplane.ListOptions{Key: controlplane.EpochKey()})
				return err
			}); err != nil {
				return err
			}
		}
		if took.Quantile(1) < quick {
			return nil
		}
		if err := rig.Sleep(ctx, time.Second); err != nil {
			return err
		}
	}
}

// answers are the figures of many requests.
type answers struct{ p50, p99, rate float64 }

// askAll asks by n clients at once for a time. Of the requests that are under way then it waits for those that
// end soon.
func askAll(ctx context.Context, n int, most time.Duration, ask func(ctx context.Context, i int) error) (answers, error) {
	ctx, stop := context.WithTimeout(ctx, 3*most)
	defer stop()
	var mu sync.Mutex
	var all rig.Durations
	var next atomic.Int64
	began := time.Now()
	g, ctx := errgroup.WithContext(ctx)
	for range n {
		g.Go(func() error {
			var own rig.Durations
			var err error
			for err == nil && time.Since(began) < most {
				i := next.Add(1) * 7919 // a prime: neighbours are not asked in turn
				err = own.Time(func() error { return ask(ctx, int(i)) })
			}
			if err != nil && !errors.Is(ctx.Err(), context.DeadlineExceeded) {
				return err
			}
			mu.Lock()
			defer mu.Unlock()
			all = append(all, own...)
			return nil
		})
	}
	err := g.Wait()
	return answers{all.Quantile(0.5), all.Quantile(0.99), float64(len(all)) / time.Since(began).Seconds()}, err
}

// apiPart serves the API of a store.
func apiPart(cfg rig.RoleConfig) rig.Part {
	return rig.Part{Run: func(ctx context.Context, ready func(string)) error {
		return cfg.WithStore(ctx, func(store *etcdstore.Store) error {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				return types.Errorf(types.Precondition, "serve the API: %w", err)
			}
			followed := rest.Mirror(store, time.Now, zap.NewNop())
			s := &http.Server{Handler: rest.Handler(rest.Config{Store: followed, Now: time.Now, Version: "bench"}), ReadHeaderTimeout: time.Minute}
			g, ctx := errgroup.WithContext(ctx)
			g.Go(func() error { return followed.Run(ctx) })
			g.Go(func() error { return s.Serve(l) })
			context.AfterFunc(ctx, func() { _ = s.Close() }) // nothing is asked any more
			g.Go(func() error {
				for { // until it has listed everything
					if view, err := followed.Fork(ctx); view != nil || err != nil {
						ready(l.Addr().String())
						return err
					}
					if err := rig.Sleep(ctx, 100*time.Millisecond); err != nil {
						return err
					}
				}
			})
			return g.Wait()
		})
	}}
}
