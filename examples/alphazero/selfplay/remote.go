package selfplay

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"

	"golang.org/x/sync/errgroup"
)

// answer answers requests over TCP until ctx is done: positions come and answers go back in their
// memory layout.
func answer(ctx context.Context, listener net.Listener) error {
	g, ctx := errgroup.WithContext(ctx)
	stop := context.AfterFunc(ctx, func() { _ = listener.Close() })
	defer stop()
	for {
		conn, err := listener.Accept()
		if err != nil {
			return errors.Join(g.Wait(), ctx.Err())
		}
		g.Go(func() error {
			stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
			defer stop()
			converse(conn) // the end of the connection ends it
			return conn.Close()
		})
	}
}

// converse serves one connection.
func converse(conn net.Conn) {
	board, reply := new(Board), new(Answer)
	for {
		if _, err := io.ReadFull(conn, board.bytes()); err != nil {
			return
		}
		Predict(board, reply)
		if _, err := conn.Write(reply.bytes()); err != nil {
			return
		}
	}
}

// afar asks over TCP.
type afar struct {
	conn  net.Conn
	board Board
	reply Answer
}

func dial(ctx context.Context, address string) (*afar, error) {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("reach the predictor: %w", err)
	}
	return &afar{conn: conn}, nil
}

// Board implements Predictor.
func (p *afar) Board() *Board { return &p.board }

// Ask implements Predictor.
func (p *afar) Ask(ctx context.Context) (*Answer, error) {
	stop := context.AfterFunc(ctx, func() { _ = p.conn.Close() })
	defer stop()
	if _, err := p.conn.Write(p.board.bytes()); err != nil {
		return nil, errors.Join(ctx.Err(), err)
	}
	if _, err := io.ReadFull(p.conn, p.reply.bytes()); err != nil {
		return nil, errors.Join(ctx.Err(), err)
	}
	return &p.reply, nil
}

// Close implements Predictor.
func (p *afar) Close() error { return p.conn.Close() }
