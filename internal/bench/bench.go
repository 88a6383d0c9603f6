// Package bench measures Escher against the floor under it: what etcd itself does
// with transactions of the same shape, over the same transport, in the same run.
package bench

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"github.com/escher-sched/escher/controlplane/etcdstore"
	"github.com/escher-sched/escher/controlplane/server"
	"github.com/escher-sched/escher/types"
)

// Config says what to measure.
type Config struct {
	// Scenario is the name of what is measured: see Scenarios.
	Scenario string
	// Escher is the program to run clusters with, for the scenarios with real
	// containers.
	Escher string
	// Dir is where etcd keeps its data during the run, on a real disk.
	Dir string
	// Nodes and Tasks are the size of the cluster; 0 is what the scenario says.
	Nodes, Tasks int
	// Rounds is how many pairs of floor and scenario are run; the medians
	// count. 0 is what the scenario says.
	Rounds int
	// Must is what the scenario has to reach to be ok; 0 is what the scenario
	// says.
	Must float64
	// Progress is told in words what goes on.
	Progress io.Writer
	Log      *zap.Logger
}

// Row is one line of the result.
type Row struct {
	Scenario   string  `json:"scenario"`
	Nodes      int     `json:"nodes"`
	Tasks      int     `json:"tasks"`
	Value      float64 `json:"value"`
	Unit       string  `json:"unit"`
	Floor      float64 `json:"floor"`
	Ratio      float64 `json:"ratio"`
	P50        float64 `json:"p50_ms"`
	P99        float64 `json:"p99_ms"`
	Must       string  `json:"must"`
	OK         bool    `json:"ok"`
	Violations int     `json:"violations"`
}

// scenario is something that can be measured.
type scenario struct {
	name         string
	nodes, tasks int
	rounds       int
	must         float64
	run          func(context.Context, Config) (Row, error)
}

// scenarios are all there are, with their usual size and what they must reach.
func scenarios() []scenario {
	return []scenario{
		{name: "bind", nodes: 5000, tasks: 50000, rounds: 3, must: 8000, run: runBind},
		{name: "submit", nodes: 3, tasks: 20, rounds: 15, must: 5, run: runSubmit},
		{name: "start", nodes: 1, tasks: 1, rounds: 15, must: 1.5, run: runStart},
		{name: "tasks", nodes: 3, tasks: 500, rounds: 15, must: 0.8, run: runTasks},
		{name: "idle", nodes: 1, tasks: 1, rounds: 15, must: 150, run: runIdle},
	}
}

// Scenarios returns the names of what can be measured.
func Scenarios() []string {
	var names []string
	for _, s := range scenarios() {
		names = append(names, s.name)
	}
	return names
}

// complete returns the scenario, and the configuration with what was left out.
func (c Config) complete() (scenario, Config, error) {
	for _, s := range scenarios() {
		if s.name != c.Scenario {
			continue
		}
		c.Nodes, c.Tasks, c.Rounds = cmp.Or(c.Nodes, s.nodes), cmp.Or(c.Tasks, s.tasks), cmp.Or(c.Rounds, s.rounds)
		c.Must = cmp.Or(c.Must, s.must)
		if c.Nodes < 1 || c.Tasks < 1 || c.Rounds < 1 {
			return s, c, types.Errorf(types.Invalid, "nodes %d, tasks %d, rounds %d: each must be at least 1", c.Nodes, c.Tasks, c.Rounds)
		}
		return s, c, refuseTmpfs(c.Dir)
	}
	return scenario{}, c, types.Errorf(types.Invalid, "scenario: %q is unknown: use %s", c.Scenario, strings.Join(Scenarios(), ", "))
}

// Run measures, and returns the row of medians.
func Run(ctx context.Context, cfg Config) (Row, error) {
	s, cfg, err := cfg.complete()
	if err != nil {
		return Row{}, err
	}
	fsync, err := fsyncLatency(cfg.Dir)
	if err != nil {
		return Row{}, err
	}
	fmt.Fprintf(cfg.Progress, "disk: fsync %s (median of 100) in %s\n", fsync.Round(time.Microsecond), cfg.Dir)
	return s.run(ctx, cfg)
}

// round is what one pair measured.
type round struct {
	floor, value float64
	commits      []time.Duration
	violations   int
}

// runBind measures how fast the scheduler binds.
func runBind(ctx context.Context, cfg Config) (Row, error) {
	var rounds []round
	for i := range cfg.Rounds {
		r, err := runRound(ctx, cfg)
		if err != nil {
			return Row{}, err
		}
		fmt.Fprintf(cfg.Progress, "round %d of %d: floor %.0f/s, %s %.0f/s (%.2f)\n", i+1, cfg.Rounds, r.floor, cfg.Scenario, r.value, r.value/r.floor)
		rounds = append(rounds, r)
	}
	row := summary(cfg, "tasks/s", rounds)
	row.Must, row.OK = fmt.Sprintf(">= %.0f/s", cfg.Must), row.Violations == 0 && row.Value >= cfg.Must
	return row, nil
}

// summary takes the medians.
func summary(cfg Config, unit string, rounds []round) Row {
	var values, floors, ratios []float64
	var commits []time.Duration
	row := Row{Scenario: cfg.Scenario, Nodes: cfg.Nodes, Tasks: cfg.Tasks, Unit: unit}
	for _, r := range rounds {
		values, floors, ratios = append(values, r.value), append(floors, r.floor), append(ratios, r.value/r.floor)
		commits = append(commits, r.commits...)
		row.Violations += r.violations
	}
	slices.Sort(commits)
	row.Value, row.Floor, row.Ratio = median(values), median(floors), median(ratios)
	row.P50, row.P99 = quantile(commits, 0.5), quantile(commits, 0.99)
	return row
}

func median(xs []float64) float64 {
	xs = slices.Sorted(slices.Values(xs))
	return xs[len(xs)/2]
}

// quantile returns a quantile of sorted durations, in milliseconds.
func quantile(sorted []time.Duration, q float64) float64 {
	if len(sorted) == 0 {
		return 0
	}
	return float64(sorted[int(q*float64(len(sorted)-1))].Microseconds()) / 1000
}

// runRound runs one pair on an etcd of its own.
func runRound(ctx context.Context, cfg Config) (r round, err error) {
	err = withDirectory(cfg, func(dir string) error {
		return withEtcd(ctx, cfg, dir, func(ctx context.Context, store *etcdstore.Store) (err error) {
			if r.floor, err = floor(ctx, store, cfg); err != nil {
				return err
			}
			return bind(ctx, store, cfg, &r)
		})
	})
	return r, err
}

// withEtcd runs f with a client of a fresh etcd.
func withEtcd(ctx context.Context, cfg Config, dir string, f func(context.Context, *etcdstore.Store) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ready := make(chan string, 1)
	etcd, err := server.New(server.Config{Dir: dir, Logger: cfg.Log, Ready: func(endpoint string) { ready <- endpoint }})
	if err != nil {
		return err
	}
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return etcd.Run(ctx) })
	g.Go(func() error {
		defer cancel()
		select {
		case <-ctx.Done():
			return nil
		case endpoint := <-ready:
			store, err := etcdstore.Dial(ctx, etcdstore.Config{Endpoints: []string{endpoint}, Limits: etcdstore.ServerLimits()})
			if err != nil {
				return err
			}
			return errors.Join(f(ctx, store), store.Close())
		}
	})
	return g.Wait()
}

// WriteTable writes rows for people.
func WriteTable(w io.Writer, rows []Row) error {
	t := tabwriter.NewWriter(w, 0, 8, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "SCENARIO\tNODES\tTASKS\tVALUE\tUNIT\tFLOOR\tRATIO\tP50 MS\tP99 MS\tMUST\tOK\tVIOLATIONS\t")
	for _, r := range rows {
		fmt.Fprintf(t, "%s\t%d\t%d\t%s\t%s\t%s\t%.2f\t%.1f\t%.1f\t%s\t%t\t%d\t\n",
			r.Scenario, r.Nodes, r.Tasks, short(r.Value), r.Unit, short(r.Floor), r.Ratio, r.P50, r.P99, r.Must, r.OK, r.Violations)
	}
	return t.Flush()
}

// short is a figure with as many digits as say something.
func short(x float64) string {
	if x >= 100 {
		return strconv.FormatFloat(x, 'f', 0, 64)
	}
	return strconv.FormatFloat(x, 'f', 2, 64)
}

// WriteJSON writes rows as lines.
func WriteJSON(w io.Writer, rows []Row) error {
	enc := json.NewEncoder(w)
	for _, r := range rows {
		if err := enc.Encode(r); err != nil {
			return err
		}
	}
	return nil
}
