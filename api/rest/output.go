package rest

import (
	"cmp"
	"context"
	"net/http"
	"reflect"
	"strconv"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/escher-sched/escher/nodeagent/serve/answer"
	"github.com/escher-sched/escher/nodeagent/serve/nodeapi"
	"github.com/escher-sched/escher/types"
	"github.com/escher-sched/escher/types/measured"
)

// logged is the answer of listAttempts.
type logged struct {
	Items []nodeapi.LoggedAt `json:"items" nullable:"false"`
	Away  []string           `json:"away,omitempty" doc:"the nodes that do not answer, and may have more"`
}

// logRead is the input of readLogs.
type logRead struct {
	OnAttempt
	Follow bool      `query:"follow" doc:"goes on until the attempt is over"`
	Tail   int       `query:"tail" minimum:"0" doc:"only so many last lines of the present output"`
	From   string    `query:"from" maxLength:"512" doc:"goes on at this position: the header Escher-Log-Position of the answer that broke off"`
	Skip   int64     `query:"skip" minimum:"0" doc:"with from: how many bytes after it"`
	Marks  bool      `query:"marks" doc:"in frames, with streams and times: the parameters below need it"`
	Stream string    `query:"stream" enum:"stdout,stderr" doc:"only this stream"`
	Since  time.Time `query:"since" doc:"only from then on"`
	Until  time.Time `query:"until" doc:"only until then"`
}

// eventsRead is the input of readEvents.
type eventsRead struct {
	OnAttempt
	After       int    `query:"after" minimum:"0" doc:"only events after the one with this number"`
	LastEventID string `header:"Last-Event-ID" maxLength:"20" doc:"the same, as clients of server-sent events send it by themselves"`
}

// stepped is the answer of readEvents.
type stepped struct {
	Node    string          `json:"node"`
	Attempt int             `json:"attempt"`
	Items   []nodeapi.Event `json:"items" nullable:"false"`
}

// OnUsage is an input about usage.
type OnUsage struct {
	Since string `query:"since" maxLength:"64" doc:"adds the history since then: a time, or how long ago, such as 2m"`
}

// output registers the operations on what nodes know of attempts: their output, events and usage.
func (s *service) output() {
	const path, tag = "/v1/namespaces/{namespace}/tasks/{id}/", "containers"
	add(s, operation{http.MethodGet, path + "attempts", "listAttempts", "List the attempts of a task whose output nodes keep", tag},
		func(ctx context.Context, in *ByID) (logged, error) {
			if err := cmp.Or(types.ValidateName("namespace", in.Namespace), types.ValidateName("id", in.ID)); err != nil {
				return logged{}, err
			}
			all, away, err := s.nodes().Logged(ctx, in.Namespace, in.ID)
			return logged{Items: append([]nodeapi.LoggedAt{}, all...), Away: away}, err
		})
	read := operation{http.MethodGet, path + "logs", "readLogs", "Read the output of a task, and follow it", tag}
	passed(s, answers(s.described(read), "the output of both streams, or frames: docs/node-api.md", "application/octet-stream", "application/vnd.escher.log"),
		func(_ *logRead, at *attempt) string { return nodeapi.Path("logs", at.ns, at.id, at.number) })
	s.events(operation{http.MethodGet, path + "events", "readEvents", "List what a node did for a task, and follow it as server-sent events", tag})
	asked(s, operation{http.MethodGet, path + "usage", "getTaskUsage", "Measure what a running task uses", tag},
		func(ctx context.Context, in *struct {
			OnAttempt
			OnUsage
		}, at *attempt,
		) (measured.Task, error) {
			from, err := nodeapi.Since(in.Since, s.cfg.Now())
			if err != nil {
				return measured.Task{}, err
			}
			return at.UsageOf(ctx, at.ns, at.id, at.number, from)
		})
}

// events registers the operation on the events of an attempt.
func (s *service) events(op operation) {
	described := s.described(op)
	described.Responses["200"] = &huma.Response{Description: "the events; as server-sent events, an event step for each, and over at the end", Content: map[string]*huma.MediaType{
		"application/json": {Schema: s.schema(reflect.TypeFor[stepped]())},
		events:             {Schema: &huma.Schema{OneOf: []*huma.Schema{s.schema(reflect.TypeFor[nodeapi.Event]()), s.schema(reflect.TypeFor[answer.Problem]())}}},
	}}
	huma.Register(s.api, described, func(ctx context.Context, in *eventsRead) (*huma.StreamResponse, error) {
		at, known, err := s.known(ctx, in)
		if err != nil {
			return nil, s.failed(ctx, op.path, err)
		}
		return &huma.StreamResponse{Body: func(hctx huma.Context) {
			defer at.Close()
			to := s.told(hctx)
			defer to.end()
			for _, e := range known.Items {
				in.After = e.Seq
				to.send("step", int64(e.Seq), e)
			}
			if !to.events() {
				to.last("", known, nil)
				return
			}
			to.begin()
			err := at.Events(hctx.Context(), at.ns, at.id, at.number, in.After, true, func(e nodeapi.Event) error {
				to.send("step", int64(e.Seq), e)
				return nil
			})
			to.last("over", struct{}{}, err)
		}}, nil
	})
}

// known returns the present events of an attempt; the caller closes its client if there is no error.
func (s *service) known(ctx context.Context, in *eventsRead) (*attempt, stepped, error) {
	if in.After == 0 && in.LastEventID != "" {
		after, err := strconv.Atoi(in.LastEventID)
		if err != nil || after < 0 {
			return nil, stepped{}, types.Errorf(types.Invalid, "Last-Event-ID: %q is no number of an event: give the id of the last event", in.LastEventID)
		}
		in.After = after
	}
	at, err := s.attempt(ctx, in.on())
	if err != nil {
		return nil, stepped{}, err
	}
	out := stepped{Node: at.Client.Node(), Attempt: at.number, Items: []nodeapi.Event{}}
	err = at.Events(ctx, at.ns, at.id, at.number, in.After, false, func(e nodeapi.Event) error {
		out.Items = append(out.Items, e)
		return nil
	})
	if err != nil {
		at.Close()
	}
	return at, out, err
}
