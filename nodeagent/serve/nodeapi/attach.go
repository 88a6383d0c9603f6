package nodeapi

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"sync"

	"github.com/coder/websocket"

	"github.com/escher-sched/escher/nodeagent"
	"github.com/escher-sched/escher/nodeagent/serve/answer"
	"github.com/escher-sched/escher/types"
)

// attach passes input to the process of an attempt, with the messages of an exec. Instead of
// credit, the node says how much the process has been given since its start. So a client can go on
// after a restart of the agent, and send again what did not arrive.
func (s *server) attach(w http.ResponseWriter, r *http.Request) {
	s.stream(w, r, func(container string) (doing, error) {
		return doing{attach: func(ctx context.Context, p nodeagent.Process, taken func(int64)) error {
			return s.Runtime.Attach(ctx, container, nodeagent.Attachment{Stdin: p.Stdin, Taken: taken, Resize: p.Resize})
		}}, nil
	})
}

// Input is the input of a client for the process of a task, across connections. It keeps up to
// execCredit bytes that the process has not been given yet.
type Input struct {
	from  io.Reader
	begin sync.Once

	mu     sync.Mutex
	change *sync.Cond
	// kept begins with byte given of the input of the process. known reports whether given is known.
	kept  []byte
	given int64
	known bool
	// ended reports whether nothing follows.
	ended bool
}

// NewInput returns an input that is read from the first Attach on.
func NewInput(from io.Reader) *Input {
	in := &Input{from: from}
	in.change = sync.NewCond(&in.mu)
	return in
}

// read reads the input ahead, as far as it may be kept.
func (in *Input) read() {
	buffer := make([]byte, execChunk)
	for {
		in.mu.Lock()
		for execCredit-len(in.kept) < len(buffer) {
			in.change.Wait()
		}
		in.mu.Unlock()
		n, err := in.from.Read(buffer)
		in.mu.Lock()
		in.kept, in.ended = append(in.kept, buffer[:n]...), err != nil
		in.change.Broadcast()
		in.mu.Unlock()
		if err != nil {
			return
		}
	}
}

// taken forgets what the process has been given. Conflict: this is not its only input.
func (in *Input) taken(total int64) error {
	in.mu.Lock()
	defer in.mu.Unlock()
	if !in.known {
		in.given, in.known = total, true
	}
	if total < in.given || total > in.given+int64(len(in.kept)) {
		return types.Errorf(types.Conflict, "attach: the process has %d bytes of the input, and %d to %d were to come: another client has passed some: run the task again",
			total, in.given, in.given+int64(len(in.kept)))
	}
	in.kept = append(in.kept[:0], in.kept[total-in.given:]...)
	in.given = total
	in.change.Broadcast()
	return nil
}

// next waits for input from a byte on, and copies some of it; ended reports that none follows.
func (in *Input) next(ctx context.Context, from int64, into []byte) (n int, ended bool) {
	in.mu.Lock()
	defer in.mu.Unlock()
	// What the process has been given was sent.
	for in.given+int64(len(in.kept)) <= from && !in.ended && ctx.Err() == nil {
		in.change.Wait()
	}
	if ctx.Err() != nil {
		return 0, false
	}
	n = copy(into, in.kept[from-in.given:])
	return n, n == 0
}

// send sends the input from a byte on.
func (in *Input) send(ctx context.Context, conn *websocket.Conn, from int64) {
	defer context.AfterFunc(ctx, func() {
		in.mu.Lock()
		defer in.mu.Unlock()
		in.change.Broadcast()
	})()
	message := make([]byte, 1+execChunk)
	message[0] = streamIn
	for {
		n, ended := in.next(ctx, from, message[1:])
		if ended {
			_ = send(ctx, conn, order{End: true}) // If it cannot be sent, the connection is over.
			return
		}
		if n == 0 || conn.Write(ctx, websocket.MessageBinary, message[:1+n]) != nil {
			return
		}
		from += int64(n)
	}
}

// Attach passes an input and the sizes of a terminal to the process of an attempt, like
// nodeagent.Runtime. Both may be nil. Unavailable: the connection broke; call it again, with the
// same input. NotFound: the agent is of a version that passes no input.
func (c *Client) Attach(ctx context.Context, ns, id string, attempt int, in *Input, sizes <-chan nodeagent.Size) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	conn, err := c.connect(ctx, request("attach", ns, id, attempt, nil))
	if err != nil {
		return err
	}
	defer conn.CloseNow() //nolint:errcheck // There is nothing left to be sent.
	if err := send(ctx, conn, order{Start: &startOrder{Input: in != nil}}); err != nil {
		return c.broken(err)
	}
	if sizes != nil {
		go resize(ctx, conn, sizes)
	}
	for begun := false; ; {
		_, data, err := conn.Read(ctx)
		if err != nil {
			return c.broken(err)
		}
		if err := answer.Error(data); err != nil {
			return err
		}
		var n news
		if err := json.Unmarshal(data, &n); err != nil {
			return c.garbled(err)
		}
		if n.Exit != nil {
			return nil
		}
		if n.Taken == nil || in == nil {
			continue
		}
		if err := in.taken(*n.Taken); err != nil {
			return err
		}
		if !begun {
			begun = true
			in.begin.Do(func() { go in.read() })
			go in.send(ctx, conn, *n.Taken)
		}
	}
}
