package tasksocket

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"time"

	"golang.org/x/time/rate"

	"github.com/escher-sched/escher/nodeagent/serve/answer"
	"github.com/escher-sched/escher/types"
	"github.com/escher-sched/escher/types/action"
)

// Limits of one socket: a task must not exhaust the agent that it shares with others.
const (
	// MaxBody is the maximum size of a request: a spec of the largest size, and many tasks that
	// share it.
	MaxBody = 4 << 20
	// maxHeader limits the head of a request, to which Go adds 4 KiB: several hundred ids to wait
	// for.
	maxHeader = 16 << 10
	// maxConnections is the maximum number of open connections. sureConnections of them are
	// guaranteed, whatever other sockets do. Further ones wait to be accepted.
	maxConnections, sureConnections = 128, 8
	// maxAtOnce is the maximum number of concurrent requests, including waiting ones; more are
	// refused.
	maxAtOnce = 64
	// maxWatches is how many of them may be watches, so that others still fit.
	maxWatches = 16
	// perSecond is the long-term rate of requests, burst the number of requests at once.
	perSecond = 100
	burst     = 400
	// headerTimeout limits the time until the head of a request has arrived, and bodyTimeout the
	// time for its body.
	headerTimeout, bodyTimeout = 10 * time.Second, 10 * time.Second
	// answerTimeout limits how long a task may take to receive an answer.
	answerTimeout = 30 * time.Second
	// idleTimeout is how long a connection is kept between requests.
	idleTimeout = time.Minute
)

// Limits of one body, beyond its length. A request of 10,000 tasks fits.
const (
	// maxDepth limits the nesting of objects and lists; requests have less than ten levels.
	maxDepth = 32
	// maxElements limits the objects and lists in lists: each is a task or of similar size.
	maxElements = 16_384
	// maxValues limits all names and values.
	maxValues = 200_000
	// elementWeight and valueWeight are the memory in bytes of one element or value, and textFactor
	// is how often a text is in memory during decoding.
	elementWeight, valueWeight, textFactor = 1536, 128, 3
)

// Limits of all sockets of an agent, and of those of one namespace.
const (
	// agentConnections limits the connections beyond the guaranteed ones of each socket.
	agentConnections = 512
	// agentText and agentDecoded limit the memory of bodies and of decoded bodies, in bytes. The
	// largest body fits into the share of one namespace.
	agentText, namespaceText       = 2 * namespaceText, MaxBody * textFactor
	agentDecoded, namespaceDecoded = 3 * namespaceDecoded / 2, 48 << 20
	// maxSmall is the largest request counted for agentSmall. A namespace may use a quarter.
	maxSmall, agentSmall = 256 << 10, 16 << 20
	// agentListings and namespaceListings limit the requests that read a whole namespace.
	agentListings, namespaceListings = 8, 2
)

// limited refuses requests that are too many at once, too frequent, or have an unexpected body.
func (s *Server) limited(next http.Handler) http.Handler {
	slots := make(chan struct{}, maxAtOnce)
	often := rate.NewLimiter(perSecond, burst)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		conn := http.NewResponseController(w)
		_ = conn.SetWriteDeadline(time.Time{}) // reset that of the last answer
		w = &timed{ResponseWriter: w}
		if err := s.often(r.Context(), often); err != nil {
			w.Header().Set("Retry-After", "1")
			answer.RefuseAs(w, http.StatusTooManyRequests, err)
			return
		}
		select {
		case slots <- struct{}{}:
			defer func() { <-slots }()
		default:
			answer.Refuse(w, types.Errorf(types.Unavailable, "serve request: %d are served already: wait for some to end", maxAtOnce))
			return
		}
		if r.ContentLength != 0 {
			_ = conn.SetReadDeadline(time.Now().Add(bodyTimeout)) // every connection of the socket has one
		}
		if r.ContentLength != 0 && r.Method != http.MethodPost {
			w.Header().Set("Connection", "close")
			answer.Refuse(w, types.Errorf(types.Invalid, "body: %s %s has none: leave it out", r.Method, r.URL.Path))
			return
		}
		next.ServeHTTP(w, r)
	})
}

// often counts a request. Unavailable: there were too many on the socket, or in the namespace.
func (s *Server) often(ctx context.Context, own *rate.Limiter) error {
	if !own.Allow() {
		return types.Errorf(types.Unavailable, "serve request: more than %d a second: ask less often, or watch", perSecond)
	}
	most := s.cfg.Budget(ctx).Requests
	if s.share.ask(most) {
		return nil
	}
	ns := s.cfg.Client.Namespace()
	return types.Errorf(types.Unavailable,
		"serve request: the tasks of namespace %s on this node make more than %d requests a second: ask less often, or watch, or have an administrator allow more: %s",
		ns, most, action.RaiseBudget.Of(ns, "max-requests"))
}

// onlyParameters refuses a request with an unknown parameter: a typing error must not look like an
// omission.
func onlyParameters(r *http.Request, names ...string) error {
	for name := range r.URL.Query() {
		if slices.Contains(names, name) {
			continue
		}
		remedy := "there is none"
		if len(names) > 0 {
			remedy = "use " + strings.Join(names, ", ")
		}
		return types.Errorf(types.Invalid, "parameter: %q is unknown: %s", name, remedy)
	}
	return nil
}
