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

// Server is a predictor, which answers those of its node in shared memory, and others over
// TCP.
type Server struct {
	path     string
	table    *table
	listener net.Listener
}

// NewServer makes a predictor: its table is a file of that path, which whoever runs on its
// node sees, with so many seats, and others reach it by the listener, which is its own.
func NewServer(path string, seats int, listener net.Listener) (*Server, error) {
	t, err := makeTable(path, seats)
	if err != nil {
		return nil, errors.Join(err, listener.Close())
	}
	return &Server{path: path, table: t, listener: listener}, nil
}

// Run answers until ctx is done, and removes the table then. Once.
func (s *Server) Run(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return s.table.serve(ctx) })
	g.Go(func() error { return answer(ctx, s.listener) })
	return errors.Join(g.Wait(), os.Remove(s.path), s.table.close())
}

// Predictor is one as a generator sees it. A generator has one of its own.
type Predictor interface {
	// Board is where the position is to be that is asked about.
	Board() *Board
	// Ask returns what is said of it; that is good until the next time.
	Ask(ctx context.Context) (*Answer, error)
	// Close leaves the predictor.
	Close() error
}

// Find returns a predictor: at a seat of its table if that is here, which is told by
// together, and over TCP if not.
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

// Play is a generator: it makes positions and has them judged, until ctx is done, and
// counts them.
func Play(ctx context.Context, p Predictor, random *rand.Rand, played *atomic.Int64) error {
	for ctx.Err() == nil {
		p.Board().Deal(random)
		reply, err := p.Ask(ctx)
		if err != nil {
			return errors.Join(context.Cause(ctx), err)
		}
		if move := reply.Best(); move < Points {
			p.Board()[move] = 1 // it is played
		}
		played.Add(1)
	}
	return context.Cause(ctx)
}
