package audit_test

import (
	"fmt"
	"testing"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/audit"
	"github.com/escher-sched/escher/controlplane/audit/audittest"
)

// BenchmarkLife gives a checker the whole lives of 1,000 tasks on 10 nodes, 100 running at a time.
func BenchmarkLife(b *testing.B) {
	batches := lives(b, 10, 10, 10)
	events := 0
	for _, batch := range batches {
		events += len(batch.Events)
	}
	for b.Loop() {
		c := audit.NewChecker()
		for _, batch := range batches {
			if found := c.Apply(batch); len(found) > 0 {
				b.Fatal(found)
			}
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*events), "ns/event")
}

// lives returns a history of rounds in which each node runs a number of tasks.
func lives(b *testing.B, rounds, nodes, tasks int) []controlplane.Batch {
	script := ""
	for n := range nodes {
		script += fmt.Sprintf("put nodes/n%d {\"Capacity\": {\"cpu\": \"%d\"}}\nput alive/n%d {}\n", n, tasks, n)
	}
	for r := range rounds {
		var steps [6]string
		for n := range nodes {
			for i := range tasks {
				name := fmt.Sprintf("t%d-%d-%d", r, n, i)
				binding := fmt.Sprintf("n%d/d/%s/1", n, name)
				steps[0] += "put tasks/d/" + name + " {\"Requests\": {\"cpu\": \"1\"}}\n"
				steps[1] += fmt.Sprintf("put bindings/%s {\"Session\": $(alive/n%d), \"Holds\": [{\"Resource\": \"cpu\", \"Amount\": 1000}]}\n", binding, n) +
					fmt.Sprintf("put status/d/%s {\"Phase\": \"bound\", \"Node\": \"n%d\", \"Attempt\": 1}\n", name, n)
				steps[2] += fmt.Sprintf("put reports/%s {\"Phase\": \"running\", \"Binding\": $(bindings/%s)}\n", binding, binding)
				steps[3] += fmt.Sprintf("put status/d/%s {\"Phase\": \"running\", \"Node\": \"n%d\", \"Attempt\": 1}\n", name, n) +
					fmt.Sprintf("put reports/%s {\"Phase\": \"exited\", \"Binding\": $(bindings/%s)}\n", binding, binding)
				steps[4] += fmt.Sprintf("del bindings/%s\ndel reports/%s\nput status/d/%s {\"Phase\": \"succeeded\", \"Node\": \"n%d\", \"Attempt\": 1}\n", binding, binding, name, n)
				steps[5] += fmt.Sprintf("del tasks/d/%s\ndel status/d/%s\n", name, name)
			}
			steps[1] += fmt.Sprintf("put allocated/n%d {\"Holds\": [{\"Resource\": \"cpu\", \"Amount\": %d}]}\n", n, 1000*tasks)
			steps[4] += fmt.Sprintf("put allocated/n%d {}\n", n)
		}
		for _, step := range steps {
			script += "\n" + step
		}
	}
	steps, err := audittest.Parse(script)
	if err != nil {
		b.Fatal(err)
	}
	var batches []controlplane.Batch
	for _, step := range steps {
		batches = append(batches, step.Batch)
	}
	return batches
}
