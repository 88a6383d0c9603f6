package nodeapi

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"

	"github.com/coder/websocket"

	"github.com/escher-sched/escher/nodeagent"
	"github.com/escher-sched/escher/nodeagent/serve/answer"
	"github.com/escher-sched/escher/types"
)

// Exec runs a command in the container of an attempt, like nodeagent.Runtime, and returns its exit
// code. It kills the command when ctx is done. A read of p.Stdin may go on afterwards, because it
// cannot be interrupted.
func (c *Client) Exec(ctx context.Context, ns, id string, attempt int, p nodeagent.Process) (int, error) {
	return c.stream(ctx, request("exec", ns, id, attempt, nil), p)
}

// stream passes the streams of p through a WebSocket, and returns the exit code.
func (c *Client) stream(ctx context.Context, path string, p nodeagent.Process) (int, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	conn, err := c.connect(ctx, path)
	if err != nil {
		return 0, err
	}
	defer conn.CloseNow() //nolint:errcheck // There is nothing left to be sent.
	conn.SetReadLimit(execMessage)
	start := startOrder{Command: p.Command, Env: p.Env, Dir: p.Dir, User: p.User, TTY: p.TTY, Input: p.Stdin != nil}
	select {
	case known, ok := <-p.Resize: // the initial size
		if ok {
			start.Size = (*size)(&known)
		}
	default:
	}
	if err := send(ctx, conn, order{Start: &start}); err != nil {
		return 0, c.broken(err)
	}
	credit := newCredit()
	defer credit.close()
	if p.Stdin != nil {
		go feed(ctx, conn, credit, p.Stdin)
	}
	if p.Resize != nil {
		go resize(ctx, conn, p.Resize)
	}
	return c.watch(ctx, conn, credit, p)
}

// connect opens a WebSocket.
func (c *Client) connect(ctx context.Context, path string) (*websocket.Conn, error) {
	// An error has the same form as for a request without the upgrade.
	opts := &websocket.DialOptions{HTTPClient: c.http, HTTPHeader: http.Header{"Authorization": {"Bearer " + c.token}}}
	conn, res, err := websocket.Dial(ctx, "ws"+strings.TrimPrefix(c.base, "http")+path, opts)
	if err == nil {
		return conn, nil
	}
	if res == nil {
		return nil, c.broken(err)
	}
	defer res.Body.Close()
	return nil, c.refusal(res)
}

// watch handles the messages of the node until the command has ended.
func (c *Client) watch(ctx context.Context, conn *websocket.Conn, credit *credit, p nodeagent.Process) (int, error) {
	for {
		kind, data, err := conn.Read(ctx)
		if err != nil {
			if ctx.Err() != nil {
				err = ctx.Err()
			}
			return 0, c.broken(err)
		}
		if kind == websocket.MessageBinary {
			if err := deliver(data, p); err != nil {
				return 0, types.Errorf(types.Unavailable, "pass on what the command wrote: %w", err)
			}
			continue
		}
		if err := answer.Error(data); err != nil {
			return 0, err
		}
		var n news
		if err := json.Unmarshal(data, &n); err != nil {
			return 0, c.garbled(err)
		}
		credit.give(n.Credit)
		if n.Exit != nil {
			return *n.Exit, nil
		}
	}
}

// deliver passes on a piece of a stream.
func deliver(data []byte, p nodeagent.Process) error {
	if len(data) == 0 {
		return nil
	}
	to := p.Stdout
	if data[0] == streamErr {
		to = p.Stderr
	}
	if to == nil {
		return nil
	}
	_, err := to.Write(data[1:])
	return err
}

// feed sends the input as credit allows.
func feed(ctx context.Context, conn *websocket.Conn, credit *credit, from io.Reader) {
	message := make([]byte, 1+execChunk)
	message[0] = streamIn
	for {
		n := credit.take(execChunk)
		if n == 0 {
			return
		}
		read, err := from.Read(message[1 : 1+n])
		credit.give(n - read)
		if read > 0 && conn.Write(ctx, websocket.MessageBinary, message[:1+read]) != nil {
			return
		}
		if err != nil {
			_ = send(ctx, conn, order{End: true}) // If it cannot be sent, the command has ended.
			return
		}
	}
}

// resize sends sizes of the terminal.
func resize(ctx context.Context, conn *websocket.Conn, sizes <-chan nodeagent.Size) {
	for {
		select {
		case <-ctx.Done():
			return
		case now, ok := <-sizes:
			if !ok || send(ctx, conn, order{Size: (*size)(&now)}) != nil {
				return
			}
		}
	}
}
