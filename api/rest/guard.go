package rest

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"net/http"
	"net/url"
	"strings"
	"sync"

	"github.com/escher-sched/escher/api/access"
	"github.com/escher-sched/escher/controlplane/accounting"
	"github.com/escher-sched/escher/nodeagent/serve/answer"
	"github.com/escher-sched/escher/nodeagent/serve/tasksocket"
	"github.com/escher-sched/escher/types"
)

// Identify returns the identity of the sender of a request. Denied: it has none.
type Identify func(r *http.Request) (access.Identity, error)

// Local returns identities of a listener that accepts only administrators of its machine.
func Local(name string) Identify {
	return func(*http.Request) (access.Identity, error) { return access.Root(name), nil }
}

// ofTasks returns the identities of tasks by the sockets that they use.
func ofTasks(r *http.Request) (access.Identity, error) {
	if c, ok := tasksocket.CallerOf(r.Context()); ok {
		return access.OfTask(c), nil
	}
	return access.Identity{}, types.Errorf(types.Denied, "%w: the request came by no socket of a task", access.ErrUnauthenticated)
}

// Bearer returns identities by the tokens that requests carry or, without one, by the certificate that the
// agent of a node has shown.
func Bearer(a *access.Authority) Identify {
	return func(r *http.Request) (access.Identity, error) {
		token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
		if cert := access.Shown(r.Context()); !ok && cert != nil {
			return a.Certified(cert)
		}
		if !ok {
			return access.Identity{}, types.Errorf(types.Denied, "%w: the request has no token: send the header Authorization: Bearer TOKEN (escher login stores a token)", access.ErrUnauthenticated)
		}
		return a.Identify(r.Context(), strings.TrimSpace(token))
	}
}

// The limits of one subject: requests a second, how many at once without a pause, and open at a time.
const (
	requestRate  = 500
	requestBurst = 1000
	requestsOpen = 256
	// refusalRate and refusalBurst bound the refused requests of a subject that are recorded.
	refusalRate  = 1
	refusalBurst = 20
)

// guard is a mux that lets only requests through that the table of rights allows.
type guard struct {
	*http.ServeMux
	cfg Config
	// operations has the operation of each pattern.
	operations func(pattern string) string
	rows       map[string]access.Row
	// use is what subjects send, and refusals are their refused requests that are recorded.
	use, refusals *access.Gauges
}

// newGuard returns a guard. operations returns the operation of a pattern of the mux.
func newGuard(cfg Config, operations func(pattern string) string) *guard {
	g := &guard{
		ServeMux: http.NewServeMux(), cfg: cfg, operations: operations, rows: make(map[string]access.Row),
		use:      access.NewGauges(access.Use{Rate: requestRate, Burst: requestBurst, Open: requestsOpen}, cfg.Now),
		refusals: access.NewGauges(access.Use{Rate: refusalRate, Burst: refusalBurst}, cfg.Now),
	}
	for _, row := range access.Table() {
		g.rows[row.Operation] = row
	}
	return g
}

// HandleFunc registers the handler of an operation. The description of the API is public.
func (g *guard) HandleFunc(pattern string, handle func(http.ResponseWriter, *http.Request)) {
	_, path, _ := strings.Cut(pattern, " ")
	switch {
	case strings.HasPrefix(path, "/openapi"):
		g.ServeMux.HandleFunc(pattern, once(handle))
		return
	case g.cfg.Authority == nil || path == "/docs":
		g.ServeMux.HandleFunc(pattern, handle)
		return
	}
	g.ServeMux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
		if err := g.admit(w, r, pattern, handle); err != nil {
			refuseCaller(w, err)
		}
	})
}

// once answers each request as handle answered the first: huma makes the description then, for one request at a
// time.
func once(handle http.HandlerFunc) http.HandlerFunc {
	made := sync.OnceValue(func() *recorded {
		out := &recorded{header: make(http.Header)}
		handle(out, &http.Request{Method: http.MethodGet, URL: new(url.URL), Header: make(http.Header)})
		return out
	})
	return func(w http.ResponseWriter, _ *http.Request) {
		all := made()
		maps.Copy(w.Header(), all.header)
		_, _ = w.Write(all.text.Bytes()) // the client may be gone
	}
}

// recorded is an answer in memory, with status 200.
type recorded struct {
	header http.Header
	text   bytes.Buffer
}

func (r *recorded) Header() http.Header { return r.header }

func (r *recorded) WriteHeader(int) {}

func (r *recorded) Write(part []byte) (int, error) { return r.text.Write(part) }

// admit handles a request if its sender may send it, and returns why not.
func (g *guard) admit(w http.ResponseWriter, r *http.Request, pattern string, handle http.HandlerFunc) error {
	row, known := g.rows[g.operations(pattern)]
	if row.Public {
		handle(w, r)
		return nil
	}
	id, err := g.cfg.Identify(r)
	if err != nil {
		g.refused(&note{Request: accounting.Request{Operation: g.operations(pattern)}}, err)
		return err
	}
	if !known {
		return types.Errorf(types.Denied, "%s: no right gives it: use another operation of /openapi.json", pattern)
	}
	if err := row.Permits(id, r); err != nil {
		return err
	}
	ns := r.PathValue("namespace")
	if ns != "" {
		if err := types.ValidateName("namespace", ns); err != nil {
			return err
		}
	}
	n := noteOf(id, row, ns, r)
	if row.InCluster {
		ns = ""
	}
	leave, err := g.use.Enter(id.Subject)
	if err != nil {
		return err
	}
	defer leave()
	ctx, end, err := g.cfg.Authority.Hold(r.Context(), id, row.Of(id), ns)
	if err != nil {
		g.refused(n, err)
		return err
	}
	defer end()
	defer g.done(n)
	release, err := access.Acquire(ctx, row.Bound)
	if err != nil {
		return err
	}
	defer release()
	if n.enters {
		g.note(n.Request) // it may last for days
	}
	handle(w, r.WithContext(context.WithValue(ctx, noteKey{}, n)))
	return nil
}

// done records a request that has ended, if it changed something or was refused.
func (g *guard) done(n *note) {
	n.mu.Lock()
	defer n.mu.Unlock()
	switch {
	case n.Refused != "" && n.Revision == 0:
		g.noteRefusal(n.Request)
	case n.Revision != 0 || n.changes && !n.failed:
		g.note(n.Request)
	}
}

// refused records a request that was not let through.
func (g *guard) refused(n *note, err error) {
	n.Refused = err.Error()
	g.noteRefusal(n.Request)
}

// noteRefusal records a refused request, unless its sender has too many.
func (g *guard) noteRefusal(q accounting.Request) {
	if g.refusals.Message(q.Subject) == nil {
		g.note(q)
	}
}

// note records a request.
func (g *guard) note(q accounting.Request) {
	q.At = g.cfg.Now().UnixNano()
	g.cfg.History.Note(q)
}

// refuseCaller answers a request that is not let through. A sender without an identity gets status 401,
// one that sends too much 429.
func refuseCaller(w http.ResponseWriter, err error) {
	p := answer.ProblemOf(err)
	switch {
	case errors.Is(err, access.ErrUnauthenticated):
		p.Status = http.StatusUnauthorized
		w.Header().Set("WWW-Authenticate", `Bearer realm="escher"`)
	case errors.Is(err, access.ErrTooMany):
		p.Status = http.StatusTooManyRequests
		w.Header().Set("Retry-After", "1")
	}
	p.Title = http.StatusText(p.Status)
	p.Answer(w)
}
