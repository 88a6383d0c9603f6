// Command hello runs four tasks, of which two at a time hold a license. See docs/go.md.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"os/signal"

	"github.com/escher-sched/escher/api/escher"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	client, err := escher.Connect(ctx)
	if err == nil {
		err = errors.Join(hello(ctx, client), client.Close())
	}
	if err != nil {
		log.Fatal(err)
	}
}

// hello makes two licenses, submits a job whose tasks each request one, and says where they ran.
func hello(ctx context.Context, client *escher.Client) error {
	if err := client.SetResource(ctx, "license", "2", escher.InCluster()); err != nil {
		return err
	}
	task := escher.Task{
		Name:     "hello",
		Requests: escher.MustRequests(map[string]string{"cpu": "100m", "license": "1"}),
		Spec:     escher.Spec{Image: "docker.io/library/busybox:1.36", Run: "echo hello from $ESCHER_INDEX"},
	}
	job, err := client.Submit(ctx, escher.Job{Name: "hello", Tasks: escher.Copies(4, task)})
	if err != nil {
		return err
	}
	ended, err := client.Wait(ctx, escher.UntilEnded, job.Tasks...)
	if err != nil {
		return err
	}
	for _, id := range job.Tasks {
		fmt.Println(id, ended[id].Phase, "on", ended[id].Node)
	}
	return nil
}
