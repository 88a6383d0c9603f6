package wordcount

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

// The placements of mappers.
const (
	// placedRandom is any node that fits, whatever they read.
	placedRandom = "random"
	// placedNative names a node that has the chunk.
	placedNative = "native"
	// placedESL requests a node near the chunk.
	placedESL = "esl"
)

// policyLines is the number of lines of the policy: those marked below. A test counts them.
const policyLines = 2

// atOnce is the number of chunks stored in parallel.
const atOnce = 8

// storeChunks records where chunks are, like a program that has just stored them.
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
	job := controlplane.Job{Name: "map"}
	for i := range chunks {
		job.Tasks = append(job.Tasks, mapper(i))
	}
	switch placed {
	case placedNative:
		for i, node := range nameNodes(chunks) {
			t := &job.Tasks[i].Task
			t.Requests = t.Requests.Plus(types.NewRequests(map[string]types.Quantity{"node/" + node: esl.One}))
		}
	case placedESL:
		return jobs.Submit(ctx, job, place.Near{To: "chunk", Each: true}) // Policy
	}
	return jobs.Submit(ctx, job)
}
