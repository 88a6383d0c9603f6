package tasksocket

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/nodeagent/serve/answer"
	"github.com/escher-sched/escher/types"
)

// Caller is the task that sends a request.
type Caller struct {
	Self
	// Own reports whether it may ask about itself alone, and change only what ends with it.
	Own bool
	// User is the user that the task belongs to; empty for none, and in a request that submits nothing.
	User string
	// Client is the client of its namespace that all tasks of the node share.
	Client *controlplane.Client
	// Use acquires what a request uses of the bounds of the agent; release releases it. Unavailable: others
	// use everything for too long.
	Use func(ctx context.Context, what Bound) (release func(), err error)
	// Hold and Peers serve the requests that its agent answers: a unit of a resource in turn, and the
	// running tasks of its job.
	Hold, Peers http.HandlerFunc
}

// Bound is what a request uses of the bounds of the agent, besides the memory of its body.
type Bound int

const (
	// Nothing is what most requests use.
	Nothing Bound = iota
	// Listing is to read a whole namespace.
	Listing
	// Watching is to follow changes.
	Watching
)

// use acquires what a request uses of the bounds: see Caller.Use.
func (s *Server) use(ctx context.Context, what Bound) (release func(), err error) {
	switch what {
	case Listing:
		return s.useListing(ctx)
	case Watching:
		return s.useWatch(ctx)
	}
	return func() {}, nil
}

// caller is the key of the caller in a context.
type caller struct{}

// CallerOf returns the task that sends a request; false if it came by no task socket.
func CallerOf(ctx context.Context) (Caller, bool) {
	c, ok := ctx.Value(caller{}).(Caller)
	return c, ok
}

// With returns a context of a request by a task.
func With(ctx context.Context, c Caller) context.Context { return context.WithValue(ctx, caller{}, c) }

// operation passes a request on to the API, within the bounds of the agent.
func (s *Server) operation(w http.ResponseWriter, r *http.Request) {
	release, err := s.useBody(w, r)
	if err != nil {
		answer.Refuse(w, err)
		return
	}
	defer release()
	c := Caller{Self: s.cfg.Self, Own: s.cfg.Mode == types.SocketSelf, Client: s.cfg.Client, Use: s.use, Hold: s.hold, Peers: s.peers}
	if r.Method == http.MethodPost { // only what it submits counts for its user
		if c.User, err = s.userOf(r.Context()); err != nil {
			answer.Fail(w, r, s.cfg.Log, err)
			return
		}
	}
	s.cfg.API.ServeHTTP(bodyRead{w}, r.WithContext(With(r.Context(), c)))
}

// useBody reads the body of a request within the bounds of the agent, and replaces it with the text.
func (s *Server) useBody(w http.ResponseWriter, r *http.Request) (release func(), err error) {
	if r.ContentLength == 0 {
		return func() {}, nil
	}
	length := r.ContentLength
	if length < 0 || length > MaxBody {
		length = MaxBody // The length is unknown, or more than is read of it.
	}
	text, weight, releaseText, err := s.text(w, r, length)
	if err != nil {
		return nil, err
	}
	releaseDecoded, err := s.useDecoded(r.Context(), weight)
	if err != nil {
		releaseText()
		return nil, err
	}
	r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(text)), int64(len(text))
	return func() { releaseDecoded(); releaseText() }, nil
}

// bodyRead is an answer to a request whose body was read: what reads it again has no time limit.
type bodyRead struct{ http.ResponseWriter }

// Unwrap returns the answer of the connection.
func (b bodyRead) Unwrap() http.ResponseWriter { return b.ResponseWriter }

// SetReadDeadline does nothing.
func (bodyRead) SetReadDeadline(time.Time) error { return nil }

// timed is an answer that a task must receive in time, from its begin. Every connection of the socket has
// deadlines.
type timed struct {
	http.ResponseWriter
	begun bool
}

// Unwrap returns the answer of the connection.
func (t *timed) Unwrap() http.ResponseWriter { return t.ResponseWriter }

// WriteHeader begins the answer.
func (t *timed) WriteHeader(code int) {
	t.begin()
	t.ResponseWriter.WriteHeader(code)
}

// Write writes a part of the answer.
func (t *timed) Write(part []byte) (int, error) {
	t.begin()
	return t.ResponseWriter.Write(part)
}

func (t *timed) begin() {
	if !t.begun {
		t.begun = true
		_ = http.NewResponseController(t.ResponseWriter).SetWriteDeadline(time.Now().Add(answerTimeout))
	}
}
