package rest

import (
	"context"
	"net/http"
	"reflect"
	"strings"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/escher-sched/escher/api/access"
	"github.com/escher-sched/escher/nodeagent/serve/answer"
)

// events is the media type of server-sent events.
const events = "text/event-stream"

// long registers an operation that may take long. It answers a request that accepts events with an
// event progress for each call of tell, and an event result or error at the end; other requests with
// the result.
func long[I, E, T any](s *service, op huma.Operation, do func(ctx context.Context, in *I, tell func(E)) (T, error)) {
	result := s.schema(reflect.TypeFor[T]())
	op.Responses["200"] = &huma.Response{
		Description: "the result; as events, progress for each step, and result or error at the end",
		Content: map[string]*huma.MediaType{
			"application/json": {Schema: result},
			events:             {Schema: &huma.Schema{OneOf: []*huma.Schema{s.schema(reflect.TypeFor[E]()), result, s.schema(reflect.TypeFor[answer.Problem]())}}},
		},
	}
	huma.Register(s.api, op, func(_ context.Context, in *I) (*huma.StreamResponse, error) {
		return &huma.StreamResponse{Body: func(hctx huma.Context) {
			to := s.told(hctx)
			defer to.end()
			out, err := do(hctx.Context(), in, func(e E) { to.send("progress", 0, e) })
			to.last("result", out, err)
		}}, nil
	})
}

// schema returns the schema of a type.
func (s *service) schema(t reflect.Type) *huma.Schema {
	return s.api.OpenAPI().Components.Schemas.Schema(t, true, "")
}

// told is the answer to a request that takes long. It begins with the first event, so that a request
// that is refused before is answered with a status.
type told struct {
	s      *service
	r      *http.Request
	w      http.ResponseWriter
	path   string
	stream *answer.Stream
}

func (s *service) told(hctx huma.Context) *told {
	r, w := humago.Unwrap(hctx)
	return &told{s: s, r: r, w: w, path: hctx.Operation().Path}
}

// events reports whether events are asked for.
func (t *told) events() bool { return strings.Contains(t.r.Header.Get("Accept"), events) }

// begin begins the events.
func (t *told) begin() {
	if t.stream == nil {
		t.stream = answer.NewStream(t.w)
	}
}

// send sends an event, if events are asked for. If the client is gone, the request is canceled.
func (t *told) send(event string, id int64, data any) {
	if !t.events() {
		return
	}
	t.begin()
	_ = t.stream.Send(event, id, data)
}

// last answers with the result, or the error.
func (t *told) last(event string, result any, err error) {
	if err != nil {
		err = access.Ended(t.r.Context(), err)
	}
	switch {
	case err != nil && t.stream == nil:
		t.s.failed(t.r.Context(), t.path, err).Answer(t.w)
	case err != nil:
		t.send("error", 0, t.s.failed(t.r.Context(), t.path, err))
	case t.events():
		t.send(event, 0, result)
	default:
		t.w.Header().Set("Content-Type", "application/json")
		_ = huma.DefaultJSONFormat.Marshal(t.w, result) // the client may be gone
	}
}

// end ends the answer.
func (t *told) end() {
	if t.stream != nil {
		t.stream.End()
	}
}
