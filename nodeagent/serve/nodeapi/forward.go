package nodeapi

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"syscall"

	"github.com/moby/sys/signal"
	"golang.org/x/sys/unix"

	"github.com/escher-sched/escher/nodeagent"
	"github.com/escher-sched/escher/nodeagent/serve/answer"
	"github.com/escher-sched/escher/types"
)

// forward connects a client to a port of the node, where the task listens, with the messages of an
// exec: the connection is its input and its output, and ends with the other side's.
func (s *server) forward(w http.ResponseWriter, r *http.Request) {
	s.stream(w, r, func(string) (doing, error) {
		port := r.PathValue("port")
		if n, err := strconv.Atoi(port); err != nil || n < 1 || n > types.MaxPort {
			return doing{}, types.Errorf(types.Invalid, "port: %q is not a port: give a number from 1 to %d", port, types.MaxPort)
		}
		return doing{run: func(ctx context.Context, p nodeagent.Process) (int, error) { return 0, connect(ctx, port, p) }}, nil
	})
}

// connect passes the streams of p to a port of this machine, until that side ends the connection or
// ctx is done.
func connect(ctx context.Context, port string, p nodeagent.Process) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	dialer := &net.Dialer{Timeout: dialTimeout}
	conn, err := dialer.DialContext(ctx, "tcp", net.JoinHostPort("127.0.0.1", port))
	if err != nil {
		return types.Errorf(types.Precondition, "connect to port %s: %w: does the task listen there, at 127.0.0.1 or all addresses?", port, err)
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })() // it ends both copies
	if p.Stdin != nil {
		go func() {
			_, err := io.Copy(conn, p.Stdin)
			if half, ok := conn.(*net.TCPConn); ok && err == nil {
				_ = half.CloseWrite() // The other side sees the end of what the client sends.
			}
		}()
	}
	_, err = io.Copy(p.Stdout, conn)
	if err != nil && ctx.Err() == nil {
		return types.Errorf(types.Unavailable, "pass on what port %s sends: %w", port, err)
	}
	return nil
}

// Forward connects conn to a port of the node of an attempt until one of both sides ends. The
// caller closes conn. Precondition: nothing listens there.
func (c *Client) Forward(ctx context.Context, ns, id string, attempt, port int, conn io.ReadWriter) error {
	_, err := c.stream(ctx, request("ports", ns, id, attempt, nil)+"/"+strconv.Itoa(port), nodeagent.Process{Stdin: conn, Stdout: conn})
	return err
}

// signalled is the body of a request for a signal.
type signalled struct {
	Signal string `json:"signal"`
}

// maxSignal limits that body.
const maxSignal = 1 << 10

// signal sends a signal to the process of an attempt.
func (s *server) signal(w http.ResponseWriter, r *http.Request) {
	a, err := attemptOf(r)
	if err != nil {
		s.refuse(w, r, err)
		return
	}
	var body signalled
	if err := json.NewDecoder(io.LimitReader(r.Body, maxSignal)).Decode(&body); err != nil {
		s.refuse(w, r, types.Errorf(types.Invalid, "body: %w: write {\"signal\": \"SIGUSR1\"}", err))
		return
	}
	number, err := numberOf(body.Signal)
	if err != nil {
		s.refuse(w, r, err)
		return
	}
	container, err := s.Agent.ContainerOf(a.ns, a.id, a.number)
	if err == nil {
		err = s.Runtime.Signal(r.Context(), container, number)
	}
	if err != nil {
		s.refuse(w, r, err)
		return
	}
	answer.JSON(w, http.StatusOK, struct{}{})
}

// numberOf returns the number of a signal, given by its name, with or without SIG, or its number.
func numberOf(text string) (syscall.Signal, error) {
	name := text
	if n, err := strconv.Atoi(text); err == nil {
		name = unix.SignalName(syscall.Signal(n))
	}
	known, err := types.ParseSignal(name)
	if err != nil {
		return 0, types.Errorf(types.Invalid, "signal: %q is not a signal: use one of %s", text, strings.Join(types.Signals(), ", "))
	}
	return signal.ParseSignal(known)
}

// Signal sends a signal to the process of an attempt. Invalid: there is no such signal.
// Precondition: the attempt does not run.
func (c *Client) Signal(ctx context.Context, ns, id string, attempt int, signal string) error {
	body, err := json.Marshal(signalled{signal})
	if err != nil {
		return types.Errorf(types.Internal, "send a signal: %w", err)
	}
	res, err := c.do(ctx, http.MethodPost, request("signal", ns, id, attempt, nil), bytes.NewReader(body))
	if err != nil {
		return err
	}
	return res.Body.Close()
}
