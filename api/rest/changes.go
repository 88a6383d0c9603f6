package rest

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/escher-sched/escher/api/access"
	"github.com/escher-sched/escher/api/library"
	"github.com/escher-sched/escher/api/plan"
	"github.com/escher-sched/escher/api/requests"
	"github.com/escher-sched/escher/controlplane/manifest"
	"github.com/escher-sched/escher/esl/apply"
	"github.com/escher-sched/escher/esl/builtin"
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
		func(ctx context.Context, in *InBody, b requests.Transaction) (requests.Committed, error) {
			direct, err := s.direct(ctx, in.Namespace)
			if err == nil {
				err = requests.CheckIf(in.Namespace, b.If)
			}
			if err != nil {
				return requests.Committed{}, err
			}
			return direct.Commit(ctx, b)
		})
	planned := operation{http.MethodPost, in + "plan", "planDocuments", "Show what applying documents would change, and where their tasks would be placed", tag}
	register(s, s.documents(planned), func(ctx context.Context, in *applied) (plan.Plan, error) {
		a, err := s.application(ctx, in)
		if err != nil {
			return plan.Plan{}, err
		}
		return plan.Make(ctx, a.Client, a.Docs, s.cfg.Now(), a.Options, s.cfg.Voice)
	})
	do := operation{http.MethodPost, in + "apply", "applyDocuments", "Create or update the objects of documents", tag}
	long(s, s.documents(do), func(ctx context.Context, in *applied, tell func(apply.Step)) (out plan.Plan, err error) {
		a, err := s.application(ctx, in)
		if err != nil {
			return out, err
		}
		a.Told = tell
		d, view, err := a.Perform(ctx)
		if err == nil {
			out = plan.Plan{Decision: *d, Placements: plan.Never(view, in.Namespace, d, s.cfg.Now(), s.cfg.Voice)}
		}
		return out, err
	})
	again := operation{http.MethodPost, in + "submit", "submitDocuments", "Launch the tasks and jobs of documents as new ones, all of them or none", tag}
	register(s, s.documents(again), func(ctx context.Context, in *submitted) (out resubmitted, err error) {
		a, err := s.application(ctx, &applied{InNamespace: in.InNamespace, RawBody: in.RawBody})
		if err != nil {
			return out, err
		}
		d, err := apply.Submit(a.Docs, s.cfg.Now())
		if err == nil {
			err = d.Expand(ctx, builtin.New(a.Client))
		}
		if err == nil {
			err = d.Perform(ctx, a.Client)
		}
		if err == nil {
			out = resubmitted{Changes: d.Changes, Tasks: append([]string{}, d.Launched()...)}
		}
		return out, err
	})
}

// submitted is the input of submitDocuments, and resubmitted its answer.
type (
	submitted struct {
		InNamespace
		RawBody []byte `contentType:"application/yaml"`
	}
	resubmitted struct {
		Changes []apply.Change `json:"changes" nullable:"false" doc:"what was launched for each document"`
		Tasks   []string       `json:"tasks" nullable:"false" doc:"the ids of all tasks, in the order of the documents"`
	}
)

// documents describes an operation on documents.
func (s *service) documents(op operation) huma.Operation {
	schema := &huma.Schema{Type: huma.TypeString, Description: "documents in YAML, or one in JSON, as in files of objects: https://escher.dev/schemas/v1.json describes each"}
	described := reads(s.described(op), "application/yaml", schema)
	described.MaxBodyBytes = maxDocuments
	return described
}

// maxDocuments bounds documents in bytes: a job may list 100,000 tasks.
const maxDocuments = 32 << 20

// application reads documents to apply. Surplus tasks are stopped if the request says so. Denied: the
// caller may not change a namespace that they describe.
func (s *service) application(ctx context.Context, in *applied) (*library.Application, error) {
	giver := access.Giver{Manager: access.Manager{Store: s.cfg.Store, Now: s.cfg.Now}, By: access.From(ctx)}
	opts := apply.Options{Replace: in.Replace, Rights: apply.Rights{Before: giver.Before, Give: giver.Give}}
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
			if err := access.From(ctx).May(rights.Need{Verb: rights.Write, Kind: rights.Namespaces}, ""); err != nil {
				return nil, err
			}
		}
		for _, spec := range docs[i].Specs() {
			if w := spec.Workdir; w != nil && w.From != "" {
				return nil, types.Errorf(types.Invalid, "workdir: %q is a directory, which the HTTP API does not send: use escher apply, or name the image of a directory", types.Cut(w.From, types.MaxName))
			}
		}
	}
	client, err := s.client(ctx, in.Namespace)
	may := func([]string) (bool, error) { return false, nil } // the request says it, or nothing does
	return &library.Application{Client: client, Docs: docs, Options: opts, Now: s.cfg.Now, Voice: s.cfg.Voice, May: may}, err
}
