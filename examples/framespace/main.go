// Command framespace is a custom scheduler: it binds the tasks that name it, gangs whole, next to
// the scheduler of `escher server`. The name of a job says whether it is a gang.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"go.uber.org/zap"

	"github.com/escher-sched/escher/api/contexts"
	"github.com/escher-sched/escher/examples/framespace/gangs"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil && !errors.Is(err, context.Canceled) {
		fmt.Fprintln(os.Stderr, "framespace:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	log, err := zap.NewProduction()
	if err != nil {
		return err
	}
	place, err := contexts.Find(contexts.Given{}, os.Getenv)
	if err != nil {
		return err
	}
	store, err := place.Dial(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = store.Close() }() // no error matters any more
	return gangs.Run(ctx, store, log)
}
