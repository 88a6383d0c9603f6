package hfs

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/e2e/bench/rig"
	sim "github.com/escher-sched/escher/e2e/hollow"
	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/esl/share"
	"github.com/escher-sched/escher/types"
)

const (
	// phaseLasts is the time between two joins.
	phaseLasts = time.Minute
	// coresOnNode is the capacity of a node, longestTask the longest run time of a task.
	coresOnNode = 8
	longestTask = 5 * time.Second
	// settlesWithin is the time after a join within which all users must have their shares.
	settlesWithin = 10 * time.Second
	// shareWindow is the period over which a share is averaged.
	shareWindow = time.Second
	// tasksInJob is the number of tasks in a job.
	tasksInJob = 1000
	// fillsWithin is the time the cluster may take to fill at first.
	fillsWithin = 2 * time.Second
)

// teamUser is a user, with the entitled share of the cluster in each phase.
type teamUser struct {
	path  string
	color string
	parts [3]float64
}

// teamUsers are the users in order of joining.
func teamUsers() []teamUser {
	return []teamUser{
		{"a/alice", "#4878a8", [3]float64{1, 0.5, 0.25}},
		{"b/carol", "#d08030", [3]float64{0, 0.5, 0.5}},
		{"a/bob", "#589058", [3]float64{0, 0, 0.25}},
	}
}

// teamShares is the tree: the two teams weigh the same, as do the users of the first.
func teamShares() share.FairShare {
	return share.FairShare{
		Of: map[string]share.Team{
			"a": {Of: map[string]share.Team{"alice": {}, "bob": {}}},
			"b": {Of: map[string]share.Team{"carol": {}}},
		},
		Over: []string{string(types.CPU)},
	}
}

// Scenarios returns the scenario about the division of a cluster among users.
func Scenarios() []rig.Scenario {
	return []rig.Scenario{
		{Name: "hfs", About: "hierarchical fair sharing: how far three users of two teams are off their shares, who join one after the other; --speed for less than 180 s, --plot for a picture",
			Full: rig.Size{Nodes: 32, Tasks: 1, Rounds: 1}, Quick: rig.Size{Nodes: 16, Tasks: 1, Rounds: 1}, Run: runHFS},
	}
}

// runHFS shares a cluster of hollow agents among teams, by package esl alone. It measures how far
// each user is off the fair share, and how full the cluster is.
func runHFS(ctx context.Context, cfg rig.Config) ([]rig.Row, error) {
	if cfg.Speed == 0 {
		cfg.Speed = 1
		if cfg.Quick {
			cfg.Speed = 4
		}
	}
	var off, used, violated []float64
	for range cfg.Rounds {
		found, err := rig.OnCluster(ctx, cfg, func(ctx context.Context, c *rig.Cluster, found rig.Figures) error {
			return runOnce(ctx, c, found)
		})
		if err != nil {
			return nil, err
		}
		off, used, violated = append(off, found["off"]), append(used, found["utilisation"]), append(violated, found[rig.Violations])
	}
	row := rig.NewRow(cfg, "hfs", "% off", off).AddDetail("utilisation", used).AddDetail("speed", []float64{cfg.Speed}).AddViolations(violated)
	return []rig.Row{*row.Require(cfg.Must, rig.Target{AtMost: true, Must: 5, Unit: "%"}, rig.Target{Figure: "utilisation", Must: 0.97, Unit: " full"})}, nil
}

// runOnce runs the experiment, and adds its figures.
func runOnce(ctx context.Context, c *rig.Cluster, found rig.Figures) error {
	h, err := c.StartHollow(ctx, sim.Config{Nodes: sim.Nodes(c.Config.Nodes, coresOnNode), NoAudit: true})
	if err != nil {
		return err
	}
	series, err := runUsers(ctx, c, h)
	if err != nil {
		return err
	}
	found["off"], found["utilisation"] = series.worst(), series.used()
	if c.Config.Plot == "" {
		return nil
	}
	return os.WriteFile(c.Config.Plot, series.svg(), 0o644)
}

// runUsers lets users join, and records their usage.
func runUsers(ctx context.Context, c *rig.Cluster, h *sim.Cluster) (*usageSeries, error) {
	jobs, err := h.Client(rig.Namespace)
	if err != nil {
		return nil, err
	}
	if err := jobs.Declare(ctx, "teams", teamShares(), ""); err != nil {
		return nil, err
	}
	users := teamUsers()
	series := &usageSeries{users: users, cores: float64(c.Config.Nodes * coresOnNode)}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	watching := make(chan error, 1)
	begin := time.Now()
	go func() { watching <- series.follow(ctx, c, begin) }()
	random := rand.New(rand.NewPCG(rig.Seed, rig.Seed))
	for i, u := range users {
		c.Config.Say("%s joins", u.path)
		if err := join(ctx, c, jobs, u, i, random); err != nil {
			return nil, err
		}
		select {
		case <-time.After(time.Until(begin.Add(c.Config.Scaled(time.Duration(i+1) * phaseLasts)))):
		case err := <-watching:
			return nil, err
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
		c.Config.Say("after %ds: %s", (i+1)*60, series.last())
	}
	cancel()
	if err := <-watching; err != nil && !errors.Is(err, context.Canceled) {
		return nil, err
	}
	return series, nil
}

// join submits more than a user can run until the end: tasks of one core, of one to five
// seconds.
func join(ctx context.Context, c *rig.Cluster, jobs *esl.Client, u teamUser, phase int, random *rand.Rand) error {
	work := 0.0
	for _, part := range u.parts[phase:] {
		work += part * phaseLasts.Seconds() * float64(c.Config.Nodes*coresOnNode)
	}
	mean := (time.Second + longestTask).Seconds() / 2
	for n := int(1.2*work/mean) + tasksInJob; n > 0; n -= tasksInJob {
		tasks := make([]controlplane.Submission, min(n, tasksInJob))
		for i := range tasks {
			long := time.Second + time.Duration(random.Int64N(int64((longestTask-time.Second)/(100*time.Millisecond)+1)))*100*time.Millisecond
			tasks[i] = sim.Task(1000, "run", c.Config.Scaled(long).String())
		}
		name := strings.ReplaceAll(u.path, "/", "-")
		if _, err := jobs.Submit(ctx, controlplane.Job{Name: name, Tasks: tasks}, esl.Use{Name: "teams", As: u.path}); err != nil {
			return err
		}
	}
	return nil
}

// usagePoint is the usage of each user at a time of the experiment, in cores.
type usagePoint struct {
	at   time.Duration
	held []float64
	used float64
}

// usageSeries are the points of a run.
type usageSeries struct {
	users  []teamUser
	cores  float64
	points usagePoints
}

// worst is the largest deviation of a user from the fair share, in percent of it, in any window
// later than settlesWithin after a join.
func (s *usageSeries) worst() float64 {
	worst := 0.0
	for phase := range 3 {
		from, end := time.Duration(phase)*phaseLasts+settlesWithin, time.Duration(phase+1)*phaseLasts
		for ; from+shareWindow <= end; from += shareWindow {
			for u, user := range s.users {
				want := user.parts[phase] * s.cores
				if want == 0 {
					continue
				}
				got := s.mean(from, from+shareWindow, func(p usagePoint) float64 { return p.held[u] })
				worst = max(worst, 100*math.Abs(got-want)/want)
			}
		}
	}
	return worst
}

// used is the average utilization of the cluster once it was full.
func (s *usageSeries) used() float64 {
	return s.mean(fillsWithin, 3*phaseLasts, func(p usagePoint) float64 { return p.used }) / s.cores
}

func (s *usageSeries) mean(from, to time.Duration, of func(usagePoint) float64) float64 {
	sum, n := 0.0, 0.0
	for _, p := range s.points.all() {
		if p.at >= from && p.at < to {
			sum, n = sum+of(p), n+1
		}
	}
	if n == 0 {
		return 0
	}
	return sum / n
}

// last describes the current usage of each user.
func (s *usageSeries) last() string {
	all := s.points.all()
	if len(all) == 0 {
		return "nothing yet"
	}
	p := all[len(all)-1]
	var texts []string
	for i, u := range s.users {
		texts = append(texts, fmt.Sprintf("%s %.0f", u.path, p.held[i]))
	}
	return fmt.Sprintf("%s of %.0f cores", strings.Join(slices.Compact(texts), ", "), s.cores)
}
