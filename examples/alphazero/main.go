// Command alphazero spreads predictors evenly, one for each node, and places the generators of each
// with it: load balancing and co-location, composed, in four lines of policy (selfplay/game.go).
// Generators then ask by shared memory. A second run places them without regard to predictors:
// generators elsewhere ask by TCP.
//
//	escher dev --nodes 3 --simulated-gpus 1 --allow-mount /dev/shm/alphazero
//	escher image make escher.local/examples:latest bin/alphazero
//	alphazero -work /dev/shm/alphazero
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/escher-sched/escher/examples/alphazero/selfplay"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "alphazero:", err)
		os.Exit(1)
	}
}

// places are directories: work is on the machine, and nodes allow to mount it; a task sees that of
// its node, and one that all tasks share.
type places struct{ work, node, shared string }

// run does the part of one task or, without one, submits the game.
func run(ctx context.Context, args []string) error {
	var at places
	set := flag.NewFlagSet("alphazero", flag.ContinueOnError)
	set.StringVar(&at.work, "work", "", "a directory that the nodes allow to be mounted")
	set.StringVar(&at.node, "node", "/node", "where a task sees the directory of its node")
	set.StringVar(&at.shared, "shared", "/shared", "where a task sees what all share")
	if err := set.Parse(args); err != nil {
		return err
	}
	switch args := set.Args(); {
	case len(args) == 0:
		return compare(ctx, at)
	case len(args) == 2 && args[0] == "predict":
		return at.predict(ctx, args[1])
	case len(args) == 3 && args[0] == "generate":
		return at.generate(ctx, args[1], args[2])
	default:
		return fmt.Errorf("%q is no part: use predict NAME or generate NAME SEAT", args)
	}
}

// each is how many generators a predictor has, lasts how long they play.
const (
	each  = 2
	lasts = time.Second
)

// predict runs a predictor with a name until it is stopped.
func (at places) predict(ctx context.Context, name string) error {
	listener, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", os.Getenv("ESCHER_PORT_BOARDS")))
	if err != nil {
		return err
	}
	s, err := selfplay.NewServer(filepath.Join(at.node, name), each, listener)
	if err != nil {
		return err
	}
	if err := write(filepath.Join(at.shared, name), []byte(listener.Addr().String())); err != nil {
		return err
	}
	if err := s.Run(ctx); ctx.Err() == nil {
		return err
	}
	return nil
}

// result is the result of a generator.
type result struct {
	Together bool    `json:"together"`
	Rate     float64 `json:"positions_s"`
}

// generate plays with the predictor of a name, once that runs, and leaves a result.
func (at places) generate(ctx context.Context, name, seat string) error {
	number, err := strconv.Atoi(seat)
	if err != nil {
		return fmt.Errorf("seat: %w: give a number from 0", err)
	}
	address, err := await(ctx, filepath.Join(at.shared, name))
	if err != nil {
		return err
	}
	p, together, err := selfplay.Find(ctx, filepath.Join(at.node, name), number, string(address))
	if err != nil {
		return err
	}
	defer func() { _ = p.Close() }() // all is played
	playing, stop := context.WithTimeout(ctx, lasts)
	defer stop()
	var played atomic.Int64
	if err := selfplay.Play(playing, p, rand.New(rand.NewPCG(1, uint64(number))), &played); playing.Err() == nil || ctx.Err() != nil {
		return err
	}
	text, err := json.Marshal(result{Together: together, Rate: float64(played.Load()) / lasts.Seconds()})
	if err != nil {
		return err
	}
	return write(filepath.Join(at.shared, name+"-"+seat), text)
}

// await reads a file as soon as it exists.
func await(ctx context.Context, path string) ([]byte, error) {
	again := time.NewTicker(20 * time.Millisecond)
	defer again.Stop()
	for {
		text, err := os.ReadFile(path)
		if !errors.Is(err, fs.ErrNotExist) {
			return text, err
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-again.C:
		}
	}
}

// write writes a file atomically.
func write(path string, text []byte) error {
	part := path + ".new"
	if err := os.WriteFile(part, text, 0o644); err != nil {
		return err
	}
	return os.Rename(part, path)
}
