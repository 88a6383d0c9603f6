package rest

import (
	"context"
	"crypto/tls"
	"net"
	"reflect"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"go.uber.org/zap"

	"github.com/escher-sched/escher/api/access"
	"github.com/escher-sched/escher/api/certs"
	"github.com/escher-sched/escher/api/library"
	"github.com/escher-sched/escher/api/requests"
	"github.com/escher-sched/escher/api/secrets"
	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/accounting"
	"github.com/escher-sched/escher/controlplane/mirror"
	"github.com/escher-sched/escher/nodeagent/serve/answer"
	"github.com/escher-sched/escher/nodeagent/serve/tasksocket"
	"github.com/escher-sched/escher/scheduler/explain"
	"github.com/escher-sched/escher/types"
	"github.com/escher-sched/escher/types/action"
)

// Config configures the API.
type Config struct {
	Store controlplane.Store
	// NodeTLS has the authorities to trust for nodes; nil means those of the system.
	NodeTLS *tls.Config
	// Tunnel connects to nodes that open no port; nil means that these are not reached.
	Tunnel func(ctx context.Context, node string) (net.Conn, error)
	// Used counts what a namespace uses of its budgets; nil means that it is not known.
	Used func(ctx context.Context, store controlplane.Store, ns string) (types.Budget, error)
	// History answers questions about ended tasks; nil means that there is none.
	History *accounting.Recorder
	// CA signs the certificates of nodes; nil means that this server signs none.
	CA *certs.Authority
	// Secrets seal and open secrets; nil means that this server has no key for them.
	Secrets *secrets.Keys
	// Voice words the remedies of explanations; nil means plain words.
	Voice action.Renderer
	// Now is the clock.
	Now func() time.Time
	// Version is that of the program.
	Version string
	// Log logs internal errors; nil means no log.
	Log *zap.Logger
	// Authority decides which operations callers may perform, and Identify authenticates them. nil
	// means no access control.
	Authority *access.Authority
	Identify  Identify
}

// Mirror returns a store for Config that keeps in memory what listings of tasks and explanations read: while its Run
// runs, it answers these however many tasks there are.
func Mirror(store controlplane.Store, now func() time.Time, log *zap.Logger) *mirror.Store {
	cfg := mirror.Config{Store: store, Root: controlplane.Root, Forks: explain.BaseKinds(), Now: now, Log: log}
	for _, kind := range []controlplane.Kind{controlplane.Tasks, controlplane.Statuses, controlplane.Jobs} {
		cfg.Prefixes = append(cfg.Prefixes, controlplane.Prefix(kind))
	}
	return mirror.New(cfg)
}

// service is the operations.
type service struct {
	cfg Config
	api huma.API
	// explaining has an entry for each explanation that is being made: in a large cluster each takes megabytes.
	explaining chan struct{}
}

// slowest is how long reading a body may take.
const slowest = 30 * time.Second

// InNamespace is an input that names a namespace.
type InNamespace struct {
	Namespace string `path:"namespace" doc:"the namespace"`
}

// ByID is an input that names an object of a namespace.
type ByID struct {
	InNamespace
	ID string `path:"id" doc:"the id, or a unique prefix of it"`
}

// output is an answer with a body.
type output[T any] struct {
	Body T
}

// operation describes an operation.
type operation struct {
	method, path, id, summary, tag string
}

// add registers an operation.
func add[I, T any](s *service, op operation, do func(ctx context.Context, in *I) (T, error)) {
	register(s, s.described(op), do)
}

// register registers a described operation.
func register[I, T any](s *service, op huma.Operation, do func(ctx context.Context, in *I) (T, error)) {
	huma.Register(s.api, op, func(ctx context.Context, in *I) (*output[T], error) {
		out, err := do(ctx, in)
		if err == nil {
			return &output[T]{Body: out}, nil
		}
		return nil, s.failed(ctx, op.Path, err)
	})
}

// failed returns the problem of an error, and logs a defect.
func (s *service) failed(ctx context.Context, path string, err error) *answer.Problem {
	noteFailure(ctx, err)
	if types.Is(err, types.Internal) && ctx.Err() == nil {
		s.cfg.Log.Error("request failed", zap.String("path", path), zap.Error(err))
	}
	p := answer.ProblemOf(err)
	if text := types.Cut(types.Render(err, s.cfg.Voice), types.MaxAnswer); text != p.Detail {
		p.Command = text
	}
	return p
}

// withBody is an input with a body in JSON.
type withBody interface{ raw() []byte }

// post registers an operation with a body, which has the fields of B.
func post[I, T, B any, P interface {
	*I
	withBody
}](s *service, op operation, do func(ctx context.Context, in P, b B) (T, error),
) {
	register(s, body[B](s, op), func(ctx context.Context, in *I) (out T, err error) {
		b, err := tasksocket.Decode[B](P(in).raw(), "/openapi.json")
		if err == nil {
			out, err = do(ctx, in, b)
		}
		return out, err
	})
}

// body returns a described operation with a body, which has the fields of B.
func body[B any](s *service, op operation) huma.Operation {
	return reads(s.described(op), "application/json", s.schema(reflect.TypeFor[B]()))
}

// bodyOf is the metadata of an operation with the content of its body.
const bodyOf = "body"

// reads returns an operation with a raw body of a media type and a schema.
func reads(op huma.Operation, media string, schema *huma.Schema) huma.Operation {
	op.RequestBody = &huma.RequestBody{Required: true}
	op.Metadata = map[string]any{bodyOf: map[string]*huma.MediaType{media: {Schema: schema}}}
	op.SkipValidateBody = true
	return op
}

// describeBody describes the body of an operation: huma calls a raw one binary.
func describeBody(_ *huma.OpenAPI, op *huma.Operation) {
	if content, ok := op.Metadata[bodyOf].(map[string]*huma.MediaType); ok {
		op.RequestBody.Content = content
	}
}

// described returns the operation as OpenAPI has it.
func (s *service) described(op operation) huma.Operation {
	problem := s.api.OpenAPI().Components.Schemas.Schema(reflect.TypeFor[answer.Problem](), true, "")
	return huma.Operation{
		Method: op.method, Path: op.path, OperationID: op.id, Summary: op.summary, Tags: []string{op.tag},
		MaxBodyBytes: tasksocket.MaxBody, BodyReadTimeout: slowest,
		Responses: map[string]*huma.Response{"default": {
			Description: "the error", Content: map[string]*huma.MediaType{"application/problem+json": {Schema: problem}},
		}},
	}
}

// InBody is an input with a body in JSON for a namespace.
type InBody struct {
	InNamespace
	RawBody []byte `contentType:"application/json"`
}

func (b *InBody) raw() []byte { return b.RawBody }

// OnOne is an input with a body in JSON for an object.
type OnOne struct {
	ByID
	RawBody []byte `contentType:"application/json"`
}

func (b *OnOne) raw() []byte { return b.RawBody }

// client returns a client of a namespace. Tasks of a node share one. Invalid: it is not a name.
func (s *service) client(ctx context.Context, ns string) (*controlplane.Client, error) {
	if t := access.From(ctx).Task; t != nil && t.Namespace == ns && t.Client != nil {
		return t.Client, nil
	}
	return controlplane.New(s.cfg.Store, ns)
}

// direct performs requests in a namespace, for the caller.
func (s *service) direct(ctx context.Context, ns string) (requests.Direct, error) {
	client, err := s.client(ctx, ns)
	d := requests.Direct{Client: client, Library: library.Known(), Now: s.cfg.Now, Log: s.cfg.Log}
	if t := access.From(ctx).Task; t != nil {
		d.Self, d.Own = t.Self, t.Own
	}
	return d, err
}
