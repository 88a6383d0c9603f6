package tasksocket

import (
	"net/http"
	"time"

	"github.com/escher-sched/escher/nodeagent/serve/answer"
)

// route is a request of the API.
type route struct {
	// pattern is its method and path, as in docs/task-api.md.
	pattern string
	serve   http.Handler
	// own restricts the requests of a task with SocketSelf; nil means none are permitted.
	own func(*Server, *http.Request) error
}

// routes returns all requests of the API.
func (s *Server) routes() []route {
	return []route{
		{"GET /v1/self", s.get(s.self), anything},
		{"GET /v1/state", s.listing(s.get(s.state, "reads")), nil},
		{"GET /v1/tasks", s.listing(s.get(s.tasks)), nil},
		{"GET /v1/tasks/{id}", s.get(s.status), (*Server).ownTask},
		{"GET /v1/wait", s.get(s.wait, "until", "id", "timeout"), (*Server).ownIDs},
		{"GET /v1/watch", http.HandlerFunc(s.watch), (*Server).ownIDs},
		{"GET /v1/hold", http.HandlerFunc(s.hold), nil},
		{"POST /v1/resources", post(s, s.set), anything},
		{"POST /v1/tasks", post(s, s.launch), nil},
		{"POST /v1/tasks/{id}/stop", post(s, s.stop), (*Server).ownTask},
		{"POST /v1/tasks/{id}/evict", post(s, s.evict), (*Server).ownTask},
		{"POST /v1/reservations", post(s, s.reserve), nil},
		{"DELETE /v1/reservations/{id}", s.get(s.unreserve), nil},
		{"POST /v1/transactions", post(s, s.transact), nil},
	}
}

// handler serves all routes.
func (s *Server) handler() http.Handler {
	mux := http.NewServeMux()
	for _, r := range s.routes() {
		mux.Handle(r.pattern, s.permitted(r))
	}
	mux.HandleFunc("/", answer.Missing("docs/task-api.md"))
	return s.limited(mux)
}

// listing limits the concurrent requests that read the whole namespace, until they are answered.
func (s *Server) listing(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		release, err := s.useListing(r.Context())
		if err != nil {
			answer.Refuse(w, err)
			return
		}
		defer release()
		next.ServeHTTP(w, r)
	})
}

// get serves a request without a body, with these parameters.
func (s *Server) get(do func(*http.Request) (any, error), parameters ...string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.finish(w, r, func(r *http.Request) (any, error) {
			if err := onlyParameters(r, parameters...); err != nil {
				return nil, err
			}
			return do(r)
		})
	})
}

// post serves a request with a T as its body.
func post[T any](s *Server, do func(*http.Request, *T) (any, error)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.finish(w, r, func(r *http.Request) (any, error) {
			if err := onlyParameters(r); err != nil {
				return nil, err
			}
			body, release, err := read[T](s, w, r)
			if err != nil {
				return nil, err
			}
			defer release()
			if r, err = s.submitting(r); err != nil {
				return nil, err
			}
			return do(r, body)
		})
	})
}

// finish answers a request.
func (s *Server) finish(w http.ResponseWriter, r *http.Request, do func(*http.Request) (any, error)) {
	out, err := do(r)
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(answerTimeout)) // every connection of the socket has one
	if err == nil {
		answer.JSON(w, http.StatusOK, out)
		return
	}
	answer.Fail(w, r, s.cfg.Log, err)
}
