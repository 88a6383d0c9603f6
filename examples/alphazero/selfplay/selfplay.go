package selfplay

import (
	"context"
	"errors"
	"io/fs"
	"math/rand/v2"
	"net"
	"os"
	"sync/atomic"

	"golang.org/x/sync/errgroup"
)

// Server is a predictor, which answers generators on its node in shared memory, and others over
// TCP.
type Server struct {
	path     string
	table    *table
	listener net.Listener
}

// NewServer makes a predictor. Its table is a file at path with seats for generators on its node;
// others reach it by the listener, which it owns.
func NewServer(path string, seats int, listener net.Listener) (*Server, error) {
	t, err := makeTable(path, seats)
	if err != nil {
		return nil, errors.Join(err, listener.Close())
	}
	return &Server{path: path, table: t, listener: listener}, nil
}

// Run answers until ctx is done, and removes the table then. Call it once.
func (s *Server) Run(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return s.table.serve(ctx) })
	g.Go(func() error { return answer(ctx, s.listener) })
	return errors.Join(g.Wait(), os.Remove(s.path), s.table.close())
}

// Predictor is a generator's connection to a predictor. Each generator has its own.
type Predictor interface {
	// Board is where to put the position.
	Board() *Board
	// Ask returns the prediction; it is valid until the next call.
	Ask(ctx context.Context) (*Answer, error)
	// Close leaves the predictor.
	Close() error
}

// Find returns a predictor: at a seat of its table if that is here, which together reports, else
// over TCP.
func Find(ctx context.Context, path string, seat int, address string) (p Predictor, together bool, err error) {
	near, err := sit(path, seat)
	if err == nil {
		return near, true, nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return nil, false, err
	}
	far, err := dial(ctx, address)
	if err != nil {
		return nil, false, err
	}
	return far, false, nil
}

// Play is a generator: it makes positions, asks for predictions until ctx is done, and counts them.
func Play(ctx context.Context, p Predictor, random *rand.Rand, played *atomic.Int64) error {
	for ctx.Err() == nil {
		p.Board().Deal(random)
		reply, err := p.Ask(ctx)
		if err != nil {
			return errors.Join(context.Cause(ctx), err)
		}
		if move := reply.Best(); move < Points {
			p.Board()[move] = 1 // play it
		}
		played.Add(1)
	}
	return context.Cause(ctx)
}
