// Package nodeapi is the API of a node for users with read access to the store: the output of its
// tasks, commands and files in their containers, its images, and the events of attempts. Handler is
// the agent's side. Dialer finds a node, and Client sends requests to it. docs/node-api.md
// describes the requests.
package nodeapi

import (
	"context"
	"crypto/subtle"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/escher-sched/escher/nodeagent"
	"github.com/escher-sched/escher/nodeagent/serve/answer"
	"github.com/escher-sched/escher/types"
	"github.com/escher-sched/escher/types/action"
)

// Limits of one node's API.
const (
	// maxAtOnce is the maximum number of concurrent requests, including those that follow a log.
	maxAtOnce = 2048
	// maxHeader limits the head of a request. It may have a path of 4 KiB, but no command of an
	// exec.
	maxHeader = 16 << 10
	// startTimeout limits how long a request waits for an agent that starts.
	startTimeout = 5 * time.Second
	// headerTimeout limits the time until the head of a request has arrived.
	headerTimeout = 10 * time.Second
	// idleTimeout is how long a connection is kept between requests.
	idleTimeout = 2 * time.Minute
	// maxDrain limits how much of a refused body is read.
	maxDrain = 256 << 20
)

// agent is the part of a nodeagent.Agent that the API needs.
type agent interface {
	Node() string
	Token() string
	Await(ctx context.Context) error
	Bound(ns, id string, attempt int) (bool, error)
	ContainerOf(ns, id string, attempt int) (string, error)
	LogPath(ns, id string, attempt int) string
	Logged(ns, id string) ([]int, error)
	Events(ns, id string, attempt, after int) ([]nodeagent.Event, <-chan struct{})
}

var _ agent = (*nodeagent.Agent)(nil)

// Config configures the API. Agent and Runtime must be set.
type Config struct {
	// Agent is a nodeagent.Agent, except in tests.
	Agent   agent
	Runtime nodeagent.Runtime
	// Usage is a usage.Sampler, except in tests; nil means that nothing is sampled.
	Usage sampler
	// Open serves /healthz, /readyz and /metrics without a token; nil means not served. Full serves
	// them to clients with the token; nil means Open.
	Open, Full http.Handler
	// Log logs internal errors; nil means no log.
	Log *zap.Logger
	// Say renders the actions in errors; nil means neutral words.
	Say action.Renderer
}

// server answers requests.
type server struct {
	Config
	// hijacked are requests with a hijacked connection, for which the HTTP server does not wait.
	hijacked sync.WaitGroup
}

// Handler returns the handler of one node's API.
func Handler(cfg Config) http.Handler { return newServer(cfg).handler() }

func newServer(cfg Config) *server {
	if cfg.Log == nil {
		cfg.Log = zap.NewNop()
	}
	if cfg.Say == nil {
		cfg.Say = action.Action.String
	}
	return &server{Config: cfg}
}

// complaints logs the messages of Go's server about failed connections.
type complaints struct{ log *zap.Logger }

func (c complaints) Write(text []byte) (int, error) {
	c.log.Info("connection failed", zap.String("reason", strings.TrimSpace(string(text))))
	return len(text), nil
}

// handler returns the handler of all requests.
func (s *server) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/logs/{namespace}/{task}", s.listLogs)
	mux.HandleFunc("GET /v1/logs/{namespace}/{task}/{attempt}", s.log)
	mux.HandleFunc("GET /v1/exec/{namespace}/{task}/{attempt}", s.exec)
	mux.HandleFunc("GET /v1/attach/{namespace}/{task}/{attempt}", s.attach)
	mux.HandleFunc("GET /v1/ports/{namespace}/{task}/{attempt}/{port}", s.forward)
	mux.HandleFunc("POST /v1/signal/{namespace}/{task}/{attempt}", s.signal)
	mux.HandleFunc("GET /v1/files/{namespace}/{task}/{attempt}", s.getFiles)
	mux.HandleFunc("PUT /v1/files/{namespace}/{task}/{attempt}", s.putFiles)
	mux.HandleFunc("GET /v1/events/{namespace}/{task}/{attempt}", s.events)
	mux.HandleFunc("GET /v1/usage", s.sampled(s.usageOfTasks))
	mux.HandleFunc("GET /v1/usage/node", s.sampled(s.usageOfNode))
	mux.HandleFunc("GET /v1/usage/{namespace}/{task}/{attempt}", s.sampled(s.usageOfTask))
	mux.HandleFunc("GET /v1/images", s.listImages)
	mux.HandleFunc("POST /v1/images", s.loadImages)
	mux.HandleFunc("POST /v1/images/pull", s.pullImage)
	mux.HandleFunc("GET /v1/images/pull", s.tellPull)
	mux.HandleFunc("POST /v1/workdirs/lacking", s.lackingLayers)
	mux.HandleFunc("/", answer.Missing("docs/node-api.md"))
	bounded := http.NewServeMux()
	bounded.Handle("/", s.authorised(mux))
	// For other nodes. A digest of 256 bits is as good as a token.
	bounded.HandleFunc("GET /v1/workdirs/layers", s.layersOfWorkdir)
	bounded.HandleFunc("GET /v1/workdirs", s.exportWorkdir)
	all := http.NewServeMux()
	all.Handle("/", s.limited(bounded))
	if s.Open != nil {
		for _, path := range []string{"/healthz", "/readyz", "/metrics"} {
			all.HandleFunc(path, s.open)
		}
	}
	return all
}

// Serve serves a node's API at l until ctx is done. Then it ends requests under way, and returns
// ctx.Err(). It closes l.
func Serve(ctx context.Context, l net.Listener, cfg Config) error {
	s := newServer(cfg)
	defer s.hijacked.Wait()
	srv := &http.Server{
		Handler: s.handler(), ReadHeaderTimeout: headerTimeout, IdleTimeout: idleTimeout, MaxHeaderBytes: maxHeader,
		ErrorLog: log.New(complaints{s.Log}, "", 0),
	}
	err := answer.Serve(ctx, l, srv)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return types.Errorf(types.Unavailable, "serve the API of node %s at %s: %w", cfg.Agent.Node(), l.Addr(), err)
}

// open serves the requests that need no token. With the token, the answer has more.
func (s *server) open(w http.ResponseWriter, r *http.Request) {
	if s.Full != nil && s.bears(r) {
		s.Full.ServeHTTP(w, r)
		return
	}
	s.Open.ServeHTTP(w, r)
}

// bears reports whether a request has the token of the session.
func (s *server) bears(r *http.Request) bool {
	token := s.Agent.Token()
	given, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	return ok && token != "" && subtle.ConstantTimeCompare([]byte(given), []byte(token)) == 1
}

// authorised refuses requests without the token of the session.
func (s *server) authorised(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case s.Agent.Token() == "":
			answer.Refuse(w, types.Errorf(types.Unavailable, "ask node %s: its agent has no session yet: try again in a moment", s.Agent.Node()))
		case !s.bears(r):
			w.Header().Set("WWW-Authenticate", "Bearer")
			answer.RefuseAs(w, http.StatusUnauthorized, types.Errorf(types.Precondition,
				"ask node %s: the token is missing, or not that of its session: read it again from tokens/%s", s.Agent.Node(), s.Agent.Node()))
		default:
			s.awaitStart(r.Context())
			next.ServeHTTP(w, r)
		}
	})
}

// awaitStart waits, within a limit, until the agent knows its tasks. What needs them is refused
// if it does not by then.
func (s *server) awaitStart(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	_ = s.Agent.Await(ctx) // The answer says it.
}

// limited refuses requests beyond maxAtOnce.
func (s *server) limited(next http.Handler) http.Handler {
	slots := make(chan struct{}, maxAtOnce)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case slots <- struct{}{}:
			defer func() { <-slots }()
			next.ServeHTTP(w, r)
		default:
			answer.Refuse(w, types.Errorf(types.Unavailable, "ask node %s: it serves %d requests already: try again later", s.Agent.Node(), maxAtOnce))
		}
	})
}

// attempt is the attempt in a request.
type attempt struct {
	ns, id string
	number int
}

// attemptOf reads the attempt from the path. It validates all parts, because they become part of a
// file path.
func attemptOf(r *http.Request) (attempt, error) {
	a := attempt{ns: r.PathValue("namespace"), id: r.PathValue("task")}
	err := errors.Join(types.ValidateName("namespace", a.ns), types.ValidateName("task", a.id))
	if text := r.PathValue("attempt"); text != "" {
		n, bad := strconv.Atoi(text)
		if bad != nil || n < 1 {
			err = errors.Join(err, types.Errorf(types.Invalid, "attempt: %q is none: give a number from 1 on", text))
		}
		a.number = n
	}
	if err != nil {
		return a, types.Errorf(types.Invalid, "%w", err)
	}
	return a, nil
}

// refuse answers with an error.
func (s *server) refuse(w http.ResponseWriter, r *http.Request, err error) {
	answer.Fail(w, r, s.Log, s.said(err))
}

// said returns an error with its actions rendered.
func (s *server) said(err error) error {
	return types.Errorf(types.ClassOf(err), "%s", types.Render(err, s.Say))
}

// number parses a parameter that is a number of 0 or more; absent is the value without it.
func number(r *http.Request, name string, absent int64) (int64, error) {
	text := r.URL.Query().Get(name)
	if text == "" {
		return absent, nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 {
		return 0, types.Errorf(types.Invalid, "%s: %q is no number of 0 or more: correct it", name, text)
	}
	return n, nil
}

// drain reads the rest of a refused body, within a limit: a client that still sends would not see
// the answer.
func drain(body io.Reader) {
	_, _ = io.Copy(io.Discard, io.LimitReader(body, maxDrain)) // Only the end matters.
}
