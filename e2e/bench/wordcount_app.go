package bench

import (
	"context"
	"fmt"
	"strconv"

	"golang.org/x/sync/errgroup"

	"github.com/escher-sched/escher/controlplane"
	sim "github.com/escher-sched/escher/e2e/hollow"
	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/esl/place"
	"github.com/escher-sched/escher/types"
)

// How mappers are placed.
const (
	// wordRandom is wherever there is room, whatever they read.
	wordRandom = "random"
	// wordNative names a node that has the chunk.
	wordNative = "native"
	// wordESL asks to be near the chunk.
	wordESL = "esl"
)

// wordLines is how many lines the policy takes: those marked below. A test counts them.
const wordLines = 2

// atOnce is how many chunks are stored at a time.
const atOnce = 8

// storeChunks notes where chunks are, as what stores them does when it has.
func storeChunks(ctx context.Context, jobs *esl.Client, chunks [][]string) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(atOnce)
	for i, nodes := range chunks {
		g.Go(func() error {
			return place.Replicate(ctx, jobs.Client, "chunk."+strconv.Itoa(i), nodes...) // Policy
		})
	}
	return g.Wait()
}

// mapper is the task that reads a chunk; it runs until it is told that it has ended.
func mapper(chunk int) controlplane.Submission {
	s := sim.Task(1000)
	s.ID = mapperID(chunk)
	return s
}

func mapperID(chunk int) string { return fmt.Sprintf("map-%04d", chunk) }

// submitMappers submits a mapper for each chunk.
func submitMappers(ctx context.Context, jobs *esl.Client, placed string, chunks [][]string) (controlplane.Launched, error) {
	job := esl.Job{Name: "map"}
	for i := range chunks {
		job.Tasks = append(job.Tasks, mapper(i))
	}
	switch placed {
	case wordNative:
		for i, node := range nameNodes(chunks) {
			t := &job.Tasks[i].Task
			t.Requests = t.Requests.Plus(types.NewRequests(map[string]types.Quantity{"node/" + node: esl.One}))
		}
	case wordESL:
		return jobs.Submit(ctx, job, place.Near{To: "chunk", Each: true}) // Policy
	}
	return jobs.Submit(ctx, job)
}
