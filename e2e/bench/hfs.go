package bench

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
	sim "github.com/escher-sched/escher/e2e/hollow"
	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/esl/share"
	"github.com/escher-sched/escher/types"
)

// The experiment of the paper on hierarchical fair sharing: three users of two teams, with more
// work than fits, join at 0, 60 and 120 s, and it ends at 180 s.
const (
	hfsPhase = time.Minute
	// hfsCores is the capacity of a node, hfsLongest the longest run time of a task.
	hfsCores   = 8
	hfsLongest = 5 * time.Second
	// hfsSettle is the time after a join within which all users must have their shares.
	hfsSettle = 10 * time.Second
	// hfsWindow is the period over which a share is averaged.
	hfsWindow = time.Second
	// hfsJob is the number of tasks in a job.
	hfsJob = 1000
	// hfsFull is the time the cluster may take to fill at first.
	hfsFull = 2 * time.Second
)

// hfsUser is a user, with the entitled share of the cluster in each phase.
type hfsUser struct {
	path  string
	color string
	parts [3]float64
}

// hfsUsers are the users in order of joining.
func hfsUsers() []hfsUser {
	return []hfsUser{
		{"a/alice", "#4878a8", [3]float64{1, 0.5, 0.25}},
		{"b/carol", "#d08030", [3]float64{0, 0.5, 0.5}},
		{"a/bob", "#589058", [3]float64{0, 0, 0.25}},
	}
}

// hfsShare is the tree: the two teams weigh the same, as do the users of the first.
func hfsShare() share.FairShare {
	return share.FairShare{
		Of: map[string]share.Team{
			"a": {Of: map[string]share.Team{"alice": {}, "bob": {}}},
			"b": {Of: map[string]share.Team{"carol": {}}},
		},
		Over: []string{string(types.CPU)},
	}
}

// shareScenarios are about the division of a cluster among users.
func shareScenarios() []scenario {
	return []scenario{
		{name: "hfs", about: "hierarchical fair sharing: how far three users of two teams are off their shares, who join one after the other; --speed for less than 180 s, --plot for a picture",
			full: size{32, 1, 1}, quick: size{16, 1, 1}, run: runHFS},
	}
}

// runHFS shares a cluster of hollow agents among teams, by package esl alone. It measures how far
// each user is off the fair share, and how full the cluster is.
func runHFS(ctx context.Context, cfg Config) ([]Row, error) {
	if cfg.Speed == 0 {
		cfg.Speed = 1
		if cfg.Quick {
			cfg.Speed = 4
		}
	}
	var off, used, violated []float64
	for range cfg.Rounds {
		found, err := onCluster(ctx, cfg, func(ctx context.Context, c *cluster, found figures) error {
			return c.hfs(ctx, found)
		})
		if err != nil {
			return nil, err
		}
		off, used, violated = append(off, found["off"]), append(used, found["utilisation"]), append(violated, found[violations])
	}
	row := newRow(cfg, "hfs", "% off", off).detail("utilisation", used).detail("speed", []float64{cfg.Speed}).found(violated)
	return []Row{*row.require(cfg.Must, target{atMost: true, must: 5, unit: "%"}, target{figure: "utilisation", must: 0.97, unit: " full"})}, nil
}

// scaled is the actual duration of a time of the experiment.
func (c Config) scaled(d time.Duration) time.Duration { return time.Duration(float64(d) / c.Speed) }

// hfs runs the experiment, and adds its figures.
func (c *cluster) hfs(ctx context.Context, found figures) error {
	h, err := c.hollow(ctx, sim.Config{Nodes: sim.Nodes(c.cfg.Nodes, hfsCores), NoAudit: true})
	if err != nil {
		return err
	}
	series, err := c.hfsRun(ctx, h)
	if err != nil {
		return err
	}
	found["off"], found["utilisation"] = series.worst(), series.used()
	if c.cfg.Plot == "" {
		return nil
	}
	return os.WriteFile(c.cfg.Plot, series.svg(), 0o644)
}

// hfsRun lets users join, and records their usage.
func (c *cluster) hfsRun(ctx context.Context, h *sim.Cluster) (*hfsSeries, error) {
	jobs, err := h.Client(ns)
	if err != nil {
		return nil, err
	}
	if err := jobs.Declare(ctx, "teams", hfsShare(), ""); err != nil {
		return nil, err
	}
	users := hfsUsers()
	series := &hfsSeries{users: users, cores: float64(c.cfg.Nodes * hfsCores)}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	watching := make(chan error, 1)
	begin := time.Now()
	go func() { watching <- series.follow(ctx, c, begin) }()
	random := rand.New(rand.NewPCG(seed, seed))
	for i, u := range users {
		c.cfg.progress.say("%s joins", u.path)
		if err := c.hfsJoin(ctx, jobs, u, i, random); err != nil {
			return nil, err
		}
		select {
		case <-time.After(time.Until(begin.Add(c.cfg.scaled(time.Duration(i+1) * hfsPhase)))):
		case err := <-watching:
			return nil, err
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
		c.cfg.progress.say("after %ds: %s", (i+1)*60, series.last())
	}
	cancel()
	if err := <-watching; err != nil && !errors.Is(err, context.Canceled) {
		return nil, err
	}
	return series, nil
}

// hfsJoin submits more than a user can run until the end: tasks of one core, of one to five
// seconds.
func (c *cluster) hfsJoin(ctx context.Context, jobs *esl.Client, u hfsUser, phase int, random *rand.Rand) error {
	work := 0.0
	for _, part := range u.parts[phase:] {
		work += part * hfsPhase.Seconds() * float64(c.cfg.Nodes*hfsCores)
	}
	mean := (time.Second + hfsLongest).Seconds() / 2
	for n := int(1.2*work/mean) + hfsJob; n > 0; n -= hfsJob {
		tasks := make([]controlplane.Submission, min(n, hfsJob))
		for i := range tasks {
			long := time.Second + time.Duration(random.Int64N(int64((hfsLongest-time.Second)/(100*time.Millisecond)+1)))*100*time.Millisecond
			tasks[i] = sim.Task(1000, "run", c.cfg.scaled(long).String())
		}
		name := strings.ReplaceAll(u.path, "/", "-")
		if _, err := jobs.Submit(ctx, controlplane.Job{Name: name, Tasks: tasks}, esl.Use{Name: "teams", As: u.path}); err != nil {
			return err
		}
	}
	return nil
}

// hfsPoint is the usage of each user at a time of the experiment, in cores.
type hfsPoint struct {
	at   time.Duration
	held []float64
	used float64
}

// hfsSeries are the points of a run.
type hfsSeries struct {
	users  []hfsUser
	cores  float64
	points hfsPoints
}

// worst is the largest deviation of a user from the fair share, in percent of it, in any window
// later than hfsSettle after a join.
func (s *hfsSeries) worst() float64 {
	worst := 0.0
	for phase := range 3 {
		from, end := time.Duration(phase)*hfsPhase+hfsSettle, time.Duration(phase+1)*hfsPhase
		for ; from+hfsWindow <= end; from += hfsWindow {
			for u, user := range s.users {
				want := user.parts[phase] * s.cores
				if want == 0 {
					continue
				}
				got := s.mean(from, from+hfsWindow, func(p hfsPoint) float64 { return p.held[u] })
				worst = max(worst, 100*math.Abs(got-want)/want)
			}
		}
	}
	return worst
}

// used is the average utilization of the cluster once it was full.
func (s *hfsSeries) used() float64 {
	return s.mean(hfsFull, 3*hfsPhase, func(p hfsPoint) float64 { return p.used }) / s.cores
}

func (s *hfsSeries) mean(from, to time.Duration, of func(hfsPoint) float64) float64 {
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
func (s *hfsSeries) last() string {
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
