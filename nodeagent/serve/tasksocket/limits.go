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
)

// Limits of one socket: a task must not exhaust the agent that it shares with
// others.
const (
	// maxBody is how large a request may be: a spec of the largest size, and
	// many tasks that share it.
	maxBody = 4 << 20
	// maxHeader bounds the head of a request, to which Go adds 4 KiB: several hundred ids
	// to wait for.
	maxHeader = 16 << 10
	// maxConnections is how many connections are open at once, and sureConnections how many of
	// them it has whatever other sockets do. More of them wait to be accepted.
	maxConnections, sureConnections = 128, 8
	// maxAtOnce is how many requests are served at once, those that wait
	// included; more are refused.
	maxAtOnce = 64
	// maxWatches is how many of them may be watches, so that the others have room.
	maxWatches = 16
	// perSecond is how many requests a second are served for long, burst how many
	// at a time.
	perSecond = 100
	burst     = 400
	// headerTimeout bounds how long a request may take to begin, and bodyTimeout how long its
	// body may take to come.
	headerTimeout, bodyTimeout = 10 * time.Second, 10 * time.Second
	// answerTimeout bounds how long a task may take to take an answer in.
	answerTimeout = 30 * time.Second
	// idleTimeout is how long a connection is kept between requests.
	idleTimeout = time.Minute
)

// Limits of one body, beyond its length. A request of 10,000 tasks fits.
const (
	// maxDepth is how deep objects and lists may be in one another; those of requests are
	// in fewer than ten.
	maxDepth = 32
	// maxElements bounds the objects and lists in lists: each is a task or as large as one.
	maxElements = 16_384
	// maxValues bounds all names and values.
	maxValues = 200_000
	// elementWeight and valueWeight are the memory in bytes that one of each becomes, and
	// textFactor how often a text is in memory while it is decoded.
	elementWeight, valueWeight, textFactor = 1536, 128, 3
)

// Limits of all sockets of an agent, and of those of one namespace.
const (
	// agentConnections bounds the connections beyond those that each socket is sure of.
	agentConnections = 512
	// agentText and agentDecoded bound the memory of bodies and of what they become, in bytes.
	// The largest body of a request fits into what one namespace may use.
	agentText, namespaceText       = 2 * namespaceText, maxBody * textFactor
	agentDecoded, namespaceDecoded = 3 * namespaceDecoded / 2, 48 << 20
	// maxSmall is what counts for agentSmall instead, a quarter of which one namespace may use.
	maxSmall, agentSmall = 256 << 10, 16 << 20
	// agentListings and namespaceListings bound the requests that read a whole namespace.
	agentListings, namespaceListings = 8, 2
)

// limited refuses what is too much at once, too often, or has a body where none belongs.
func (s *Server) limited(next http.Handler) http.Handler {
	slots := make(chan struct{}, maxAtOnce)
	often := rate.NewLimiter(perSecond, burst)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := s.often(r.Context(), often); err != nil {
			w.Header().Set("Retry-After", "1")
			answer.JSON(w, http.StatusTooManyRequests, answer.Problem(err))
			return
		}
		select {
		case slots <- struct{}{}:
			defer func() { <-slots }()
		default:
			answer.Refuse(w, types.Errorf(types.Unavailable, "serve request: %d are served already: wait for some to end", maxAtOnce))
			return
		}
		conn := http.NewResponseController(w)
		_ = conn.SetWriteDeadline(time.Time{}) // that of the last answer is over
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

// often counts a request. Unavailable: there were too many of the socket, or of the namespace.
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
		"serve request: the tasks of namespace %s on this node make more than %d requests a second: ask less often, or watch, or have an administrator allow more: escher namespace set %s --max-requests",
		ns, most, ns)
}

// onlyParameters refuses a request with a parameter that it does not have: a typing
// error must not be taken for something left out.
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
