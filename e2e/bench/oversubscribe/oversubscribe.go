package oversubscribe

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/e2e/bench/rig"
	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/esl/builtin"
	"github.com/escher-sched/escher/esl/lend"
	"github.com/escher-sched/escher/types"
)

const (
	image  = "escher.local/work:latest"
	policy = "idle"
	// The owners request four fifths of the node together and work a quarter of the time: a batch takes
	// batchTakes on an idle core, and begins every batchEvery. The rest of the node is for a newcomer.
	// The guests request nearly all that is lent before it comes.
	ownersPart = 0.8
	guestsPart = 0.6
	batchTakes = 25 * time.Millisecond
	batchEvery = 100 * time.Millisecond
	// window is how long the work of a draw is counted, with and without guests.
	window = 15 * time.Second
	// lentWithin bounds the wait until guests run: new owners count as using all that they request for a
	// minute.
	lentWithin = 5 * time.Minute
	// goneWithin bounds the wait until guests are evicted.
	goneWithin = time.Minute
)

// Scenarios returns the scenario.
func Scenarios() []rig.Scenario {
	return []rig.Scenario{{
		Name: "oversubscribe", About: "work done by owners that work a quarter of the time, with guests on the rest; over that without", Containers: true,
		Full: rig.Size{Nodes: 1, Tasks: 1, Rounds: 9}, Quick: rig.Size{Nodes: 1, Tasks: 1, Rounds: 1}, Run: run,
	}}
}

// bench is a live cluster with owners.
type bench struct {
	*rig.Live
	cfg  rig.Config
	jobs *esl.Client
	// work is the directory where tasks write what they have done; blocks is the size of a batch.
	work   string
	blocks int
	// cores and memory are those of the node.
	cores, memory types.Quantity
	owners        []string
}

// run measures.
func run(ctx context.Context, cfg rig.Config) ([]rig.Row, error) {
	found := make(rig.Samples)
	found["draw"] = make(map[string][]float64)
	blocks := blocksFor(batchTakes)
	err := rig.WithWork(ctx, cfg, image, func(ctx context.Context, l *rig.Live, work string) error {
		b := &bench{Live: l, cfg: cfg, jobs: builtin.New(l.Client), work: work, blocks: blocks}
		if err := b.begin(ctx); err != nil {
			return err
		}
		return b.draws(ctx, found["draw"])
	})
	if err != nil {
		return nil, err
	}
	all := found["draw"]
	row := rig.NewRow(cfg, cfg.Scenario, "batches/s", all["with"]).Over("owners alone", all["with"], all["alone"])
	for _, name := range []string{"slowdown", "newcomer_s", "grown_s"} {
		row.AddDetail(name, all[name])
	}
	return []rig.Row{*row.Require(cfg.Must, rig.Target{Figure: rig.Ratio, Must: 1.2}, rig.Target{Figure: "slowdown", AtMost: true, Must: 1.03},
		rig.Target{Figure: "grown_s", AtMost: true, Must: 10, Unit: " s"}, rig.Target{Figure: "newcomer_s", AtMost: true, Must: 5, Unit: " s"})}, nil
}

// begin starts the owners, and waits until they have left enough idle for guests to run.
func (b *bench) begin(ctx context.Context) error {
	if err := b.jobs.Declare(ctx, policy, lend.Oversubscribe{}, ""); err != nil {
		return err
	}
	nodes, _, err := controlplane.ListAll(ctx, b.Client.Store(), controlplane.ListOptions{Prefix: controlplane.Prefix(controlplane.Nodes)})
	if err != nil {
		return err
	}
	for _, kv := range nodes {
		var n types.Node
		if err := types.Decode(kv.Value, &n); err != nil {
			return err
		}
		b.cores, b.memory = n.Capacity.Get(string(types.CPU)), n.Capacity.Get(string(types.Memory))
	}
	owners := b.tasks("owner", runtime.NumCPU(), ownersPart, batchEvery)
	if b.owners, err = b.submit(ctx, "owners", owners); err != nil {
		return err
	}
	_, err = b.jobs.Wait(ctx, controlplane.UntilRunning, b.owners...)
	return err
}

// tasks returns n tasks that request a part of the node together.
func (b *bench) tasks(name string, n int, part float64, every time.Duration) []controlplane.Submission {
	of := func(q types.Quantity) types.Quantity { return types.Quantity(float64(q) * part / float64(n)) }
	return esl.Copies(n, controlplane.Submission{
		Task: types.Task{Name: name, Requests: types.NewRequests(map[string]types.Quantity{string(types.CPU): of(b.cores), string(types.Memory): of(b.memory) / 4})},
		Spec: &types.Spec{
			Image: image, Command: []string{"/bin/escher-bench", WorkCommand, b.work, strconv.Itoa(b.blocks), every.String()},
			Mounts: []types.Mount{{Source: b.work, Target: b.work}}, Grace: time.Second,
		},
	})
}

func (b *bench) submit(ctx context.Context, name string, tasks []controlplane.Submission, policies ...esl.Policy) ([]string, error) {
	done, err := b.jobs.Submit(ctx, controlplane.Job{Name: name, Tasks: tasks}, policies...)
	return done.Tasks, err
}

// draws counts the work with and without guests, and how fast guests are gone, again and again.
func (b *bench) draws(ctx context.Context, found map[string][]float64) error {
	add := func(name string, x float64) { found[name] = append(found[name], x) }
	for i := range b.cfg.Rounds {
		guests, err := b.guests(ctx)
		if err != nil {
			return err
		}
		with, more, err := b.count(ctx, guests)
		if err != nil {
			return err
		}
		newcomer, err := b.evicted(ctx, guests, b.come)
		if err != nil {
			return err
		}
		if i == b.cfg.Rounds-1 {
			if err := b.running(ctx, guests); err != nil {
				return err
			}
			grown, err := b.evicted(ctx, guests, b.grow)
			if err != nil {
				return err
			}
			add("grown_s", grown.Seconds())
		}
		if err := b.end(ctx, guests); err != nil {
			return err
		}
		alone, _, err := b.count(ctx, nil)
		if err != nil {
			return err
		}
		slower := with.each() / alone.each()
		add("with", float64(with.Batches+more.Batches)/window.Seconds())
		add("alone", float64(alone.Batches)/window.Seconds())
		add("slowdown", slower)
		add("newcomer_s", newcomer.Seconds())
		b.cfg.Say("draw %d of %d: owners alone %d batches of %.1f ms; with guests %d of %.1f ms (%.3f), and %d of the guests; gone %.1f s after a newcomer",
			i+1, b.cfg.Rounds, alone.Batches, 1e3*alone.each(), with.Batches, 1e3*with.each(), slower, more.Batches, newcomer.Seconds())
	}
	return nil
}

// guests starts guests, and waits until all of them run.
func (b *bench) guests(ctx context.Context) ([]string, error) {
	guests, err := b.submit(ctx, "guests", b.tasks("guest", runtime.NumCPU(), guestsPart, 0), esl.Use{Name: policy})
	if err != nil {
		return nil, err
	}
	return guests, b.running(ctx, guests)
}

// running waits until tasks run.
func (b *bench) running(ctx context.Context, ids []string) error {
	ctx, cancel := context.WithTimeout(ctx, lentWithin)
	defer cancel()
	_, err := b.jobs.Wait(ctx, controlplane.UntilRunning, ids...)
	return err
}

// count returns what owners and guests do in a window.
func (b *bench) count(ctx context.Context, guests []string) (owners, others done, err error) {
	var at [2][2]done
	for i := range at {
		for j, ids := range [][]string{b.owners, guests} {
			if at[i][j], err = read(b.work, ids); err != nil {
				return owners, others, err
			}
		}
		if i == 0 {
			if err := rig.Sleep(ctx, window); err != nil {
				return owners, others, err
			}
		}
	}
	return at[1][0].less(at[0][0]), at[1][1].less(at[0][1]), nil
}

// evicted returns the time from an owner's wish to the end of the first attempt of a guest. It takes the
// wish back.
func (b *bench) evicted(ctx context.Context, guests []string, wish func(context.Context) (back func() error, err error)) (time.Duration, error) {
	before, err := b.attempts(ctx, guests)
	if err != nil {
		return 0, err
	}
	begin := time.Now()
	back, err := wish(ctx)
	if err != nil {
		return 0, err
	}
	for time.Since(begin) < goneWithin {
		now, err := b.attempts(ctx, guests)
		if err != nil || now != before {
			return time.Since(begin), errors.Join(err, back())
		}
		if err := rig.Sleep(ctx, 20*time.Millisecond); err != nil {
			return 0, errors.Join(err, back())
		}
	}
	return 0, errors.Join(types.Errorf(types.Internal, "no guest is evicted %s after an owner wants its part back", goneWithin), back())
}

// attempts returns a text that differs once a guest has been evicted.
func (b *bench) attempts(ctx context.Context, guests []string) (string, error) {
	text := ""
	for _, id := range guests {
		s, err := b.Client.Status(ctx, id)
		if err != nil {
			return "", err
		}
		text += fmt.Sprint(s.Phase() == types.Running, s.Status.Attempt, " ")
	}
	return text, nil
}

// come starts an owner on the rest of the node.
func (b *bench) come(ctx context.Context) (back func() error, err error) {
	ids, err := b.submit(ctx, "newcomer", b.tasks("newcomer", 1, 1-ownersPart, batchEvery))
	return func() error { return b.end(ctx, ids) }, err
}

// grow makes the owners work all the time.
func (b *bench) grow(context.Context) (back func() error, err error) {
	file := filepath.Join(b.work, moreFile)
	return func() error { return os.Remove(file) }, os.WriteFile(file, nil, 0o600)
}

// end stops tasks, and waits until they have ended.
func (b *bench) end(ctx context.Context, ids []string) error {
	for _, id := range ids {
		if err := b.jobs.Stop(ctx, id, controlplane.StopOptions{Reason: "measured"}); err != nil {
			return err
		}
	}
	_, err := b.jobs.Wait(ctx, controlplane.UntilEnded, ids...)
	return err
}
