package rest

import (
	"context"
	"net/http"
	"reflect"
	"strconv"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/escher-sched/escher/api/access"
	"github.com/escher-sched/escher/api/keys"
	"github.com/escher-sched/escher/api/requests"
	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/nodeagent/serve/answer"
	"github.com/escher-sched/escher/nodeagent/serve/tasksocket"
	"github.com/escher-sched/escher/types"
)

// watched is the input of watch.
type watched struct {
	InNamespace
	Of          string   `query:"of" enum:"tasks,resources" default:"tasks" doc:"what to follow"`
	ID          []string `query:"id,explode" maxItems:"1000" doc:"follows only the tasks with these ids, in full: repeat it for several"`
	After       int64    `query:"after" minimum:"0" doc:"goes on after the event with this id"`
	LastEventID string   `header:"Last-Event-ID" maxLength:"20" doc:"the same, as clients of server-sent events send it by themselves"`
}

// follow registers the operation that follows changes, as server-sent events.
func (s *service) follow() {
	op := s.described(operation{
		http.MethodGet, "/v1/namespaces/{namespace}/watch", "watch",
		"Follow changes as server-sent events: first what there is, then an event synced, then each change", "follow",
	})
	op.Responses["200"] = &huma.Response{Description: "server-sent events: task or resource, synced, and error at the end", Content: map[string]*huma.MediaType{
		"text/event-stream": {Schema: s.eventSchema()},
	}}
	huma.Register(s.api, op, func(ctx context.Context, in *watched) (*huma.StreamResponse, error) {
		direct, err := s.direct(ctx, in.Namespace)
		if err == nil {
			err = in.resume()
		}
		if err != nil {
			return nil, answer.ProblemOf(err)
		}
		return &huma.StreamResponse{Body: func(hctx huma.Context) { serveEvents(hctx, direct, in) }}, nil
	})
}

// held is the input of holdUnit.
type held struct {
	Name  string `query:"name" required:"true" maxLength:"256" doc:"the resource"`
	Limit string `query:"limit" maxLength:"32" doc:"how long to hold it at most, such as 30s; 10s if it is left out"`
}

// byAgent registers the operations that the agent of a task answers.
func (s *service) byAgent() {
	answeredByAgent[held](s, "/v1/hold", "holdUnit", "Hold a unit of an ephemeral resource of the node of the task, in turn with other tasks, until the request ends",
		func(t *tasksocket.Caller) http.HandlerFunc { return t.Hold })
	answeredByAgent[struct{}](s, "/v1/peers", "watchPeers", "Follow the running tasks of the job of the task, as server-sent events",
		func(t *tasksocket.Caller) http.HandlerFunc { return t.Peers })
}

// answeredByAgent registers an operation with parameters I that the agent of a task answers.
func answeredByAgent[I any](s *service, path, id, summary string, by func(*tasksocket.Caller) http.HandlerFunc) {
	op := s.described(operation{http.MethodGet, path, id, summary, "follow"})
	op.Responses["200"] = &huma.Response{Description: "server-sent events", Content: map[string]*huma.MediaType{events: {}}}
	huma.Register(s.api, op, func(ctx context.Context, _ *I) (*huma.StreamResponse, error) {
		t := access.From(ctx).Task
		if t == nil {
			return nil, answer.ProblemOf(types.Errorf(types.Precondition, "%s: only the socket of a task serves it: run the program in a task", id))
		}
		return &huma.StreamResponse{Body: func(hctx huma.Context) {
			r, w := humago.Unwrap(hctx)
			by(t)(w, r)
		}}, nil
	})
}

// eventSchema returns the schema of the data of events.
func (s *service) eventSchema() *huma.Schema {
	var all []*huma.Schema
	for _, t := range []reflect.Type{
		reflect.TypeFor[requests.Status](), reflect.TypeFor[requests.Removed](), reflect.TypeFor[requests.ResourceChange](), reflect.TypeFor[requests.Synced](), reflect.TypeFor[answer.Problem](),
	} {
		all = append(all, s.api.OpenAPI().Components.Schemas.Schema(t, true, ""))
	}
	return &huma.Schema{OneOf: all}
}

// resume reads the id of the last event that the watcher has seen.
func (w *watched) resume() error {
	if w.After != 0 || w.LastEventID == "" {
		return nil
	}
	after, err := strconv.ParseInt(w.LastEventID, 10, 64)
	if err != nil || after < 0 {
		return types.Errorf(types.Invalid, "Last-Event-ID: %q is no revision: give the id of the last event", w.LastEventID)
	}
	w.After = after
	return nil
}

// serveEvents sends events until the watcher or the server ends.
func serveEvents(hctx huma.Context, direct requests.Direct, in *watched) {
	_, w := humago.Unwrap(hctx)
	out := answer.NewStream(w)
	defer out.End()
	err := direct.Watch(hctx.Context(), requests.Watch{Of: in.Of, IDs: in.ID, After: in.After}, func(e requests.Event) error {
		return out.Send(e.Kind, e.ID, e.Data)
	})
	if err = access.Ended(hctx.Context(), err); hctx.Context().Err() == nil || types.Is(err, types.Denied) {
		_ = out.Send("error", 0, answer.ProblemOf(err)) // the answer has begun, so an event is the only way
	}
}

// InKeys is an input about stored objects.
type InKeys struct {
	InNamespace
	Prefix string `query:"prefix" maxLength:"1024" default:"/escher/" doc:"only keys that begin with it"`
}

// readKeys is the input of listKeys.
type readKeys struct {
	InKeys
	Key      []string `query:"key,explode" maxItems:"1000" doc:"only these keys: repeat it for several; the parameters below except revision are not for them"`
	After    string   `query:"after" maxLength:"1024" doc:"only keys after this one"`
	Limit    int      `query:"limit" minimum:"1" maximum:"10000" default:"1000" doc:"how many to read at most"`
	Revision int64    `query:"revision" minimum:"0" doc:"reads the state at this revision; at the newest if it is left out"`
	KeysOnly bool     `query:"keysOnly" doc:"leaves out the objects"`
}

// watchedKeys is the input of watchKeys.
type watchedKeys struct {
	InKeys
	After int64 `query:"after" minimum:"0" required:"true" doc:"the revision after which changes are told"`
}

// keys registers the operations that read stored objects, as Go programs do.
func (s *service) keys() {
	const path, tag = "/v1/namespaces/{namespace}/keys", "follow"
	add(s, operation{http.MethodGet, path, "listKeys", "Read stored objects of a namespace, and those of the cluster that it sees, at one revision", tag},
		func(ctx context.Context, in *readKeys) (keys.StoredKeys, error) {
			if _, err := s.client(ctx, in.Namespace); err != nil {
				return keys.StoredKeys{}, err
			}
			opts := controlplane.ListOptions{Prefix: in.Prefix, Keys: in.Key, After: in.After, Limit: in.Limit, Revision: in.Revision, KeysOnly: in.KeysOnly}
			return keys.List(ctx, s.cfg.Store, access.KeysOf(access.From(ctx), in.Namespace), opts)
		})
	op := s.described(operation{http.MethodGet, path + "/watch", "watchKeys", "Follow changes of stored objects as server-sent events, one for each revision", tag})
	op.Responses["200"] = &huma.Response{Description: "server-sent events: changes, of which one without items tells progress, and error at the end", Content: map[string]*huma.MediaType{
		events: {Schema: s.schema(reflect.TypeFor[keys.StoredKeys]())},
	}}
	huma.Register(s.api, op, func(ctx context.Context, in *watchedKeys) (*huma.StreamResponse, error) {
		_, err := s.client(ctx, in.Namespace)
		if err == nil {
			_, err = access.KeysOf(access.From(ctx), in.Namespace).Ranges(in.Prefix)
		}
		if err != nil {
			return nil, answer.ProblemOf(err)
		}
		return &huma.StreamResponse{Body: func(hctx huma.Context) { s.watchKeys(hctx, in) }}, nil
	})
}

// watchKeys sends changes until the watcher or the server ends.
func (s *service) watchKeys(hctx huma.Context, in *watchedKeys) {
	_, w := humago.Unwrap(hctx)
	ctx := hctx.Context()
	out := answer.NewStream(w)
	defer out.End()
	opts := controlplane.WatchOptions{Prefix: in.Prefix, From: in.After + 1}
	err := keys.Watch(ctx, s.cfg.Store, access.KeysOf(access.From(ctx), in.Namespace), opts, func(c keys.StoredKeys) error { return out.Send("changes", c.Revision, c) })
	if err = access.Ended(ctx, err); err != nil {
		_ = out.Send("error", 0, answer.ProblemOf(err)) // the answer has begun, so an event is the only way
	}
}
