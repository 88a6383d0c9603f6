package rest

import (
	"cmp"
	"context"
	"net/http"
	"strings"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/escher-sched/escher/nodeagent/serve/answer"
	"github.com/escher-sched/escher/nodeagent/serve/nodeapi"
	"github.com/escher-sched/escher/types"
)

// OnAttempt is an input that names an attempt of a task.
type OnAttempt struct {
	ByID
	Attempt int    `query:"attempt" minimum:"0" doc:"the number of the attempt; the newest if it is left out"`
	Node    string `query:"node" maxLength:"256" doc:"the node of the attempt, if it is known. The attempt and the whole id are given then, and the task may be gone"`
}

func (o *OnAttempt) on() *OnAttempt { return o }

// named is an input that names an attempt.
type named interface{ on() *OnAttempt }

// attempt is an attempt of a task, with the client of its node.
type attempt struct {
	*nodeapi.Client
	ns, id string
	number int
}

// nodes finds the APIs of nodes.
func (s *service) nodes() nodeapi.Dialer {
	return nodeapi.Dialer{Store: s.cfg.Store, TLS: s.cfg.NodeTLS, Tunnel: s.cfg.Tunnel}
}

// attempt finds an attempt; the caller closes the client. NotFound: there is none. Precondition: the
// task has not begun.
func (s *service) attempt(ctx context.Context, in *OnAttempt) (*attempt, error) {
	if err := cmp.Or(types.ValidateName("namespace", in.Namespace), types.ValidateName("id", in.ID)); err != nil {
		return nil, err // they become a part of a path
	}
	at := &attempt{ns: in.Namespace, id: in.ID, number: in.Attempt}
	node, err := in.Node, error(nil)
	switch {
	case node == "":
		node, err = s.locate(ctx, at)
	case in.Attempt == 0:
		err = types.Errorf(types.Invalid, "attempt: is missing, and node is given: give both, or none")
	}
	if err == nil {
		at.Client, err = s.nodes().Dial(ctx, node)
	}
	return at, err
}

// locate completes the id and the number of an attempt, and returns its node.
func (s *service) locate(ctx context.Context, at *attempt) (node string, err error) {
	client, err := s.client(ctx, at.ns)
	if err != nil {
		return "", err
	}
	t, err := client.Status(ctx, at.id)
	if err != nil {
		return "", err
	}
	at.id = t.ID
	newest := t.Attempt()
	switch {
	case newest == 0 || t.Status.Node == "":
		return "", types.Errorf(types.Precondition, "find the newest attempt of task %s: it has none, its phase is %s: wait until it is bound, or ask why it waits", t.ID, t.Phase())
	case at.number == 0 || at.number == newest:
		at.number = newest
		return t.Status.Node, nil
	case at.number > newest:
		return "", types.Errorf(types.NotFound, "find attempt %d of task %s: it has had %d", at.number, t.ID, newest)
	}
	return s.nodes().Find(ctx, at.ns, at.id, at.number)
}

// asked registers an operation that the node of an attempt answers in JSON.
func asked[I, T any, P interface {
	*I
	named
}](s *service, op operation, do func(ctx context.Context, in P, at *attempt) (T, error),
) {
	add(s, op, func(ctx context.Context, in *I) (out T, err error) {
		at, err := s.attempt(ctx, P(in).on())
		if err != nil {
			return out, err
		}
		defer at.Close()
		return do(ctx, in, at)
	})
}

// passed registers an operation on an attempt that its node answers with something other than JSON,
// as its API has it. of returns the rest of the path there.
func passed[I any, P interface {
	*I
	named
}](s *service, op huma.Operation, of func(in P, at *attempt) string,
) {
	huma.Register(s.api, op, func(ctx context.Context, in *I) (*huma.StreamResponse, error) {
		at, err := s.attempt(ctx, P(in).on())
		if err != nil {
			return nil, s.failed(ctx, op.Path, err)
		}
		return &huma.StreamResponse{Body: func(hctx huma.Context) {
			defer at.Close()
			s.pass(hctx, at.Client, of(in, at))
		}}, nil
	})
}

// pass passes a request on to a path of a node.
func (s *service) pass(hctx huma.Context, c *nodeapi.Client, path string) {
	r, w := humago.Unwrap(hctx)
	query := r.URL.Query()
	query.Del("attempt")
	query.Del("node")
	c.Pass(w, r, path, query, func(err error) { s.failed(r.Context(), hctx.Operation().Path, err).Answer(w) })
}

// answers says with which media types an operation answers, in which no schema describes the content.
func answers(op huma.Operation, description string, media ...string) huma.Operation {
	content := make(map[string]*huma.MediaType)
	for _, m := range media {
		content[m] = &huma.MediaType{Schema: &huma.Schema{Type: huma.TypeString, Format: "binary"}}
	}
	op.Responses["200"] = &huma.Response{Description: description, Content: content}
	return op
}

// takes says that an operation reads an archive while it arrives.
func takes(op huma.Operation) huma.Operation {
	op.RequestBody = &huma.RequestBody{Required: true, Content: map[string]*huma.MediaType{
		"application/x-tar": {Schema: &huma.Schema{Type: huma.TypeString, Format: "binary"}},
	}}
	return op
}

// socket registers an operation that becomes a WebSocket.
func socket[I any, P interface {
	*I
	named
}](s *service, op operation, of func(in P, at *attempt) string,
) {
	described := s.described(op)
	described.DefaultStatus = http.StatusSwitchingProtocols
	described.Responses["101"] = &huma.Response{Description: "a WebSocket with the messages that the API of a node has: docs/node-api.md"}
	described.Middlewares = append(described.Middlewares, func(hctx huma.Context, next func(huma.Context)) {
		if !strings.EqualFold(hctx.Header("Upgrade"), "websocket") {
			_, w := humago.Unwrap(hctx)
			answer.Refuse(w, types.Errorf(types.Invalid, "Upgrade: %q is not websocket: open a WebSocket", hctx.Header("Upgrade")))
			return
		}
		next(hctx)
	})
	passed(s, described, of)
}
