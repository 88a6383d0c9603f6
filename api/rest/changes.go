package rest

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/escher-sched/escher/api/access"
	"github.com/escher-sched/escher/api/library"
	"github.com/escher-sched/escher/controlplane/manifest"
	"github.com/escher-sched/escher/esl/apply"
	"github.com/escher-sched/escher/nodeagent/serve/tasksocket"
	"github.com/escher-sched/escher/types"
	"github.com/escher-sched/escher/types/rights"
)

// applied is an input with documents.
type applied struct {
	InNamespace
	Replace    bool   `query:"replace" doc:"launch again what differs, and stop what is no longer described"`
	IfRevision string `query:"ifRevision" maxLength:"64" doc:"refuse if an object that the documents name has changed since: the condition of a plan"`
	RawBody    []byte `contentType:"application/yaml"`
}

// changes registers the operations that make several changes together.
func (s *service) changes() {
	const in, tag = "/v1/namespaces/{namespace}/", "changes"
	post(s, operation{http.MethodPost, in + "transactions", "transact", "Make several changes together, if nothing in its if has changed", tag},
		func(ctx context.Context, in *InBody, b tasksocket.Transaction) (tasksocket.Committed, error) {
			direct, err := s.direct(in.Namespace)
			if err != nil {
				return tasksocket.Committed{}, err
			}
			return direct.Commit(ctx, b)
		})
	s.documents(operation{http.MethodPost, in + "plan", "planDocuments", "Show what applying documents would change", tag},
		func(context.Context, *applied, *apply.Decision) error { return nil })
	s.documents(operation{http.MethodPost, in + "apply", "applyDocuments", "Create or update the objects of documents", tag},
		func(ctx context.Context, in *applied, d *apply.Decision) error {
			if surplus := d.Surplus(); len(surplus) > 0 && !in.Replace {
				return types.Errorf(types.Precondition, "replace: %d tasks are no longer described, the first is %s: set replace to stop them, or describe them", len(surplus), surplus[0])
			}
			client, err := s.client(in.Namespace)
			if err != nil {
				return err
			}
			return d.Perform(ctx, client)
		})
}

// documents registers an operation on documents. do performs the decision about them.
func (s *service) documents(op operation, do func(context.Context, *applied, *apply.Decision) error) {
	described := s.described(op)
	schema := &huma.Schema{Type: huma.TypeString, Description: "documents in YAML, or one in JSON, as in files of objects: https://escher.dev/schemas/v1.json describes each"}
	described.RequestBody = &huma.RequestBody{Required: true, Content: map[string]*huma.MediaType{"application/yaml": {Schema: schema}}}
	described.SkipValidateBody = true
	register(s, described, func(ctx context.Context, in *applied) (out apply.Decision, err error) {
		d, err := s.decide(ctx, in)
		if err == nil {
			err = do(ctx, in, d)
		}
		if err == nil {
			out = *d
		}
		return out, err
	})
}

// decide reads documents and compares them with the cluster.
func (s *service) decide(ctx context.Context, in *applied) (*apply.Decision, error) {
	opts := apply.Options{Replace: in.Replace}
	if in.IfRevision != "" {
		var err error
		if opts.If, err = apply.ParseCondition(in.IfRevision); err != nil {
			return nil, types.Errorf(types.Invalid, "ifRevision: %w", err)
		}
	}
	docs, err := manifest.Parse("body", in.RawBody, library.KnownPolicies())
	if err != nil {
		return nil, err
	}
	for i := range docs {
		if docs[i].Kind == manifest.KindNamespace {
			if err := access.From(ctx).May(rights.Need{Verb: rights.Write, Kind: rights.Namespaces}, docs[i].Name()); err != nil {
				return nil, err
			}
		}
		for _, spec := range docs[i].Specs() {
			if w := spec.Workdir; w != nil && w.From != "" {
				return nil, types.Errorf(types.Invalid, "workdir: %q is a directory, which the HTTP API does not send: use escher apply, or name the image of a directory", types.Cut(w.From, types.MaxName))
			}
		}
	}
	client, err := s.client(in.Namespace)
	if err != nil {
		return nil, err
	}
	d, _, err := library.Decide(ctx, client, docs, s.cfg.Now(), opts, s.cfg.Voice)
	return d, err
}
