package nodeapi

import (
	"context"
	"encoding/json"
	"net/http"

	"github.com/coder/websocket"

	"github.com/escher-sched/escher/nodeagent"
	"github.com/escher-sched/escher/nodeagent/serve/answer"
	"github.com/escher-sched/escher/types"
)

// An exec is a WebSocket. Streams are in binary messages, whose first byte is the number of the
// stream. Everything else is JSON in text messages: order from the client, news from the node. The
// client sends only as much input as it has credit for. So the node can always read, and notices at
// once when the client has gone.
const (
	streamIn  = 0
	streamOut = 1
	streamErr = 2

	// execChunk is the maximum size of a piece of a stream, execMessage that of a message.
	execChunk   = 32 << 10
	execMessage = 256 << 10
	// execCredit is how much input may be in transit.
	execCredit = 256 << 10
)

// order is a text message of the client. One of its fields is set.
type order struct {
	Start *startOrder `json:"start,omitempty"`
	Size  *size       `json:"size,omitempty"`
	// End marks the end of the input.
	End bool `json:"end,omitempty"`
}

// size is the JSON form of nodeagent.Size.
type size struct {
	Width  uint16 `json:"width"`
	Height uint16 `json:"height"`
}

// startOrder is the first message: the command to run.
type startOrder struct {
	Command []string `json:"command,omitempty"`
	Env     []string `json:"env,omitempty"`
	Dir     string   `json:"dir,omitempty"`
	User    string   `json:"user,omitempty"`
	TTY     bool     `json:"tty,omitempty"`
	// Size is that of the terminal, if known.
	Size *size `json:"size,omitempty"`
	// Input reports whether there is input.
	Input bool `json:"input,omitempty"`
}

// news is a text message of the node. A message with an exit code is the last one, and so is a
// message with an error instead.
type news struct {
	Credit int `json:"credit,omitempty"`
	// Taken is the number of bytes of its input that a task has been given since its start.
	Taken *int64 `json:"taken,omitempty"`
	Exit  *int   `json:"exit,omitempty"`
}

// doing does what a WebSocket is for, with the streams of a process, and returns its exit code.
type doing struct {
	run func(ctx context.Context, p nodeagent.Process) (int, error)
	// attach replaces run for the process of a task, which lives on when its client has gone: then
	// its input ends, after what has arrived. taken is called with the number of bytes that the
	// process has been given.
	attach func(ctx context.Context, p nodeagent.Process, taken func(total int64)) error
}

// exec runs a command in the container of an attempt. It kills the command when the client has gone
// or the API ends.
func (s *server) exec(w http.ResponseWriter, r *http.Request) {
	s.stream(w, r, func(container string) (doing, error) {
		return doing{run: func(ctx context.Context, p nodeagent.Process) (int, error) {
			if len(p.Command) == 0 {
				return 0, types.Errorf(types.Invalid, "command: is missing: say what to run")
			}
			return s.Runtime.Exec(ctx, container, p)
		}}, nil
	})
}

// stream serves a WebSocket about a running attempt.
func (s *server) stream(w http.ResponseWriter, r *http.Request, of func(container string) (doing, error)) {
	a, err := attemptOf(r)
	if err != nil {
		s.refuse(w, r, err)
		return
	}
	container, err := s.Agent.ContainerOf(a.ns, a.id, a.number)
	if err != nil {
		s.refuse(w, r, err)
		return
	}
	do, err := of(container)
	if err != nil {
		s.refuse(w, r, err)
		return
	}
	s.hijacked.Add(1)
	defer s.hijacked.Done()
	conn, err := websocket.Accept(w, r, nil)
	if err != nil {
		return // Accept has answered.
	}
	defer conn.CloseNow() //nolint:errcheck // There is nothing left to be sent.
	conn.SetReadLimit(execMessage)
	x := &execution{conn: conn, in: newInput(), size: make(chan nodeagent.Size, 1)}
	code, err := x.run(r.Context(), do)
	if r.Context().Err() != nil {
		return
	}
	if err != nil {
		_ = x.tell(r.Context(), answer.ProblemOf(s.said(err))) // The client may be gone.
	} else {
		_ = x.tell(r.Context(), news{Exit: &code})
	}
	_ = conn.Close(websocket.StatusNormalClosure, "")
}

// execution is one running command.
type execution struct {
	conn *websocket.Conn
	in   *input
	size chan nodeagent.Size
}

// run calls do with the command of the first message, and cancels it when the client has gone. The
// connection is used with ctx, and is closed when ctx is done.
func (x *execution) run(ctx context.Context, do doing) (int, error) {
	first, err := x.order(ctx)
	if err != nil {
		return 0, err
	}
	if first.Start == nil {
		return 0, types.Errorf(types.Invalid, "command: is missing: say what to run")
	}
	start := first.Start
	p := nodeagent.Process{
		Command: start.Command, Env: start.Env, Dir: start.Dir, User: start.User, TTY: start.TTY,
		Stdout: execWriter{ctx, x.conn, streamOut}, Stderr: execWriter{ctx, x.conn, streamErr}, Resize: x.size,
	}
	if start.Input {
		p.Stdin = x.in
	}
	if start.Input && do.run != nil {
		x.in.taken = func(n int) { _ = x.tell(ctx, news{Credit: n}) } // The client may be gone.
	}
	if start.Size != nil {
		x.resize(nodeagent.Size(*start.Size))
	}
	wanted, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		x.receive(ctx)
		if do.run != nil || !start.Input {
			cancel()
		} else {
			x.in.end(false) // At the end of this agent, ctx is done, and the input of the process goes on.
		}
	}()
	defer x.in.end(true)
	if do.run != nil {
		return do.run(wanted, p)
	}
	return 0, do.attach(wanted, p, func(total int64) { _ = x.tell(ctx, news{Taken: &total}) }) // The client may be gone.
}

// order reads a text message.
func (x *execution) order(ctx context.Context) (order, error) {
	var o order
	kind, text, err := x.conn.Read(ctx)
	if err != nil {
		return o, types.Errorf(types.Unavailable, "read: %w", err)
	}
	return o, x.parse(kind, text, &o)
}

func (x *execution) parse(kind websocket.MessageType, text []byte, o *order) error {
	if kind != websocket.MessageText {
		return types.Errorf(types.Invalid, "message: is binary: begin with one that says what to run")
	}
	if err := json.Unmarshal(text, o); err != nil {
		return types.Errorf(types.Invalid, "message: %w: correct it, as docs/node-api.md has it", err)
	}
	return nil
}

// receive handles messages of the client until it has gone or sends an invalid one.
func (x *execution) receive(ctx context.Context) {
	for {
		kind, data, err := x.conn.Read(ctx)
		if err != nil {
			return
		}
		if kind == websocket.MessageBinary {
			if len(data) == 0 || data[0] != streamIn || !x.in.put(data[1:]) {
				return
			}
			continue
		}
		var o order
		if x.parse(kind, data, &o) != nil {
			return
		}
		if o.Size != nil {
			x.resize(nodeagent.Size(*o.Size))
		}
		if o.End {
			x.in.end(false)
		}
	}
}

// resize sets the size to read next.
func (x *execution) resize(size nodeagent.Size) {
	select {
	case <-x.size:
	default:
	}
	x.size <- size
}

// tell sends a text message.
func (x *execution) tell(ctx context.Context, v any) error { return send(ctx, x.conn, v) }

// send sends a text message.
func send(ctx context.Context, conn *websocket.Conn, v any) error {
	text, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return conn.Write(ctx, websocket.MessageText, text)
}

// execWriter sends a stream.
type execWriter struct {
	ctx    context.Context
	conn   *websocket.Conn
	stream byte
}

// Write sends data.
func (w execWriter) Write(data []byte) (int, error) {
	for sent := 0; sent < len(data); {
		n := min(len(data)-sent, execChunk)
		message := append([]byte{w.stream}, data[sent:sent+n]...)
		if err := w.conn.Write(w.ctx, websocket.MessageBinary, message); err != nil {
			return sent, err
		}
		sent += n
	}
	return len(data), nil
}
