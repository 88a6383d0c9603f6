package tasksocket

import (
	"net/http"
	"slices"
	"strings"
	"time"

	"golang.org/x/time/rate"

	"github.com/escher-sched/escher/nodeagent/answer"
	"github.com/escher-sched/escher/types"
)

// Limits of one socket: a task must not exhaust the agent that it shares with
// others.
const (
	// maxBody is how large a request may be: a spec of the largest size, and
	// many tasks that share it.
	maxBody = 4 << 20
	// maxAtOnce is how many requests are served at once, those that wait
	// included; more are refused.
	maxAtOnce = 64
	// maxWatches is how many of them may be watches, so that the others have room.
	maxWatches = 16
	// perSecond is how many requests a second are served for long, burst how many
	// at a time.
	perSecond = 100
	burst     = 400
	// headerTimeout bounds how long a request may take to begin.
	headerTimeout = 10 * time.Second
	// idleTimeout is how long a connection is kept between requests.
	idleTimeout = time.Minute
	// endTimeout bounds how long the end waits for what is being served, which
	// ends at once unless a task sends slowly.
	endTimeout = time.Second
)

// limited refuses what is too much at once, too often, or too large.
func limited(next http.Handler) http.Handler {
	slots := make(chan struct{}, maxAtOnce)
	often := rate.NewLimiter(perSecond, burst)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !often.Allow() {
			w.Header().Set("Retry-After", "1")
			answer.JSON(w, http.StatusTooManyRequests, answer.Problem(types.Errorf(types.Unavailable,
				"serve request: more than %d a second: ask less often, or watch", perSecond)))
			return
		}
		select {
		case slots <- struct{}{}:
			defer func() { <-slots }()
		default:
			answer.Refuse(w, types.Errorf(types.Unavailable, "serve request: %d are served already: wait for some to end", maxAtOnce))
			return
		}
		r.Body = http.MaxBytesReader(w, r.Body, maxBody)
		next.ServeHTTP(w, r)
	})
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
