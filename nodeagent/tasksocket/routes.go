package tasksocket

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"

	"go.uber.org/zap"

	"github.com/escher-sched/escher/nodeagent/answer"
	"github.com/escher-sched/escher/types"
)

// routes are all requests there are.
func (s *Server) routes() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /v1/self", s.get(s.self))
	mux.Handle("GET /v1/state", s.get(s.state, "reads"))
	mux.Handle("GET /v1/tasks", s.get(s.tasks))
	mux.Handle("GET /v1/tasks/{id}", s.get(s.status))
	mux.Handle("GET /v1/wait", s.get(s.wait, "until", "id", "timeout"))
	mux.Handle("GET /v1/watch", http.HandlerFunc(s.watch))
	mux.Handle("POST /v1/resources", post(s, s.set))
	mux.Handle("POST /v1/tasks", post(s, s.launch))
	mux.Handle("POST /v1/tasks/{id}/stop", post(s, s.stop))
	mux.Handle("POST /v1/tasks/{id}/evict", post(s, s.evict))
	mux.Handle("POST /v1/reservations", post(s, s.reserve))
	mux.Handle("DELETE /v1/reservations/{id}", s.get(s.unreserve))
	mux.Handle("POST /v1/transactions", post(s, s.transact))
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		answer.Refuse(w, types.Errorf(types.NotFound, "%s %s: there is no such request: see docs/task-api.md", r.Method, r.URL.Path))
	})
	return mux
}

// get serves a request that has no body, and these parameters.
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

// post serves a request whose body is a T.
func post[T any](s *Server, do func(*http.Request, *T) (any, error)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.finish(w, r, func(r *http.Request) (any, error) {
			body := new(T)
			if err := errors.Join(onlyParameters(r), read(r, body)); err != nil {
				return nil, err
			}
			return do(r, body)
		})
	})
}

// finish answers a request.
func (s *Server) finish(w http.ResponseWriter, r *http.Request, do func(*http.Request) (any, error)) {
	out, err := do(r)
	if err == nil {
		answer.JSON(w, http.StatusOK, out)
		return
	}
	if types.Is(err, types.Internal) {
		s.cfg.Log.Error("request failed", zap.String("path", r.URL.Path), zap.Error(err))
	}
	answer.Refuse(w, err)
}

// read reads a body. What is not known is refused: a typing error must not be taken
// for something left out.
func read(r *http.Request, into any) error {
	text, err := io.ReadAll(r.Body)
	if large, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return types.Errorf(types.Invalid, "body: is larger than %d bytes: send less at once", large.Limit)
	}
	if err != nil {
		return types.Errorf(types.Unavailable, "read body: %w", err)
	}
	if len(bytes.TrimSpace(text)) == 0 {
		return nil
	}
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.DisallowUnknownFields()
	if err := dec.Decode(into); err != nil {
		return types.Errorf(types.Invalid, "body: %w: correct it, as docs/task-api.md has it", err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return types.Errorf(types.Invalid, "body: something follows the JSON object: send one at a time")
	}
	return nil
}
