package wordcount

import (
	"context"
	"errors"
	"math"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/e2e/bench/rig"
	sim "github.com/escher-sched/escher/e2e/hollow"
	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/types"
)

// countRun is one run of WordCount. Its tasks are real except for their processes: it sees mappers
// begin, and ends them when the model says so.
type countRun struct {
	cfg      rig.Config
	cluster  *sim.Cluster
	reducers int
	chunks   [][]string
	// number is the chunk that a mapper reads, by its id.
	number map[string]int
	// began are the mappers that are seen to run.
	began chan beganMapper

	model *timeModel
	clock time.Time
}

type beganMapper struct {
	chunk int
	node  string
}

func newCountRun(cfg rig.Config, h *sim.Cluster, chunks [][]string, reducers int) *countRun {
	w := &countRun{cfg: cfg, cluster: h, reducers: reducers, chunks: chunks, number: make(map[string]int), began: make(chan beganMapper, len(chunks)), model: newTimeModel(chunks)}
	for i := range chunks {
		w.number[mapperID(i)] = i
	}
	return w
}

// run stores the chunks, and counts them.
func (w *countRun) run(ctx context.Context, placed string, found rig.Figures) error {
	jobs, err := w.cluster.Client(rig.Namespace)
	if err != nil {
		return err
	}
	if placed == placedESL {
		if err := storeChunks(ctx, jobs, w.chunks); err != nil {
			return err
		}
	}
	done := errors.New("all is counted")
	g, ctx := errgroup.WithContext(ctx)
	listed := make(chan struct{})
	g.Go(func() error { return w.watch(ctx, jobs, listed) })
	g.Go(func() error {
		select {
		case <-listed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		w.clock = time.Now()
		g.Go(func() error { return w.follow(ctx) })
		if err := w.count(ctx, jobs, placed); err != nil {
			return err
		}
		found[makespan] = w.now()
		return done
	})
	if err := g.Wait(); !errors.Is(err, done) {
		return err
	}
	found[localPercent] = 100 * float64(w.model.local) / float64(len(w.chunks))
	return nil
}

// count maps, and then reduces.
func (w *countRun) count(ctx context.Context, jobs *esl.Client, placed string) error {
	mapped, err := submitMappers(ctx, jobs, placed, w.chunks)
	if err != nil {
		return err
	}
	if _, err := jobs.Wait(ctx, controlplane.UntilEnded, mapped.Tasks...); err != nil {
		return err
	}
	reducer := sim.Task(1000, "run", w.cfg.Scaled(reduceTime).String())
	reduced, err := jobs.Submit(ctx, controlplane.Job{Name: "reduce", Tasks: esl.Copies(w.reducers, reducer)})
	if err != nil {
		return err
	}
	_, err = jobs.Wait(ctx, controlplane.UntilEnded, reduced.Tasks...)
	return err
}

// now is the time of the experiment, in seconds.
func (w *countRun) now() float64 { return time.Since(w.clock).Seconds() * w.cfg.Speed }

// watch reports the running mappers.
func (w *countRun) watch(ctx context.Context, jobs *esl.Client, listed chan struct{}) error {
	seen := make(map[int]bool)
	return jobs.Watch(ctx, controlplane.WatchTasks{}, func(u controlplane.StatusUpdate) error {
		for _, c := range u.Changes {
			chunk, ok := w.number[c.ID]
			if ok && c.Status != nil && c.Status.Phase == types.Running && !seen[chunk] {
				seen[chunk] = true
				w.began <- beganMapper{chunk, c.Status.Node}
			}
		}
		if u.Synced && listed != nil {
			close(listed)
			listed = nil
		}
		return nil
	})
}

// follow ends mappers when they are due.
func (w *countRun) follow(ctx context.Context) error {
	event := time.NewTimer(time.Hour)
	defer event.Stop()
	for {
		select {
		case m := <-w.began:
			w.model.begin(w.now(), m.chunk, m.node)
		case <-event.C:
			w.model.advance(w.now())
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		for _, chunk := range w.model.take() {
			if err := w.cluster.Finish(ctx, rig.Namespace, mapperID(chunk), 0); err != nil {
				return err
			}
		}
		if next := w.model.next(); !math.IsInf(next, 1) {
			event.Reset(w.cfg.Scaled(time.Duration((next - w.now()) * float64(time.Second))))
		}
	}
}
