package rest

import (
	"net/http"
	"runtime"
	"strings"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"
	"go.uber.org/zap"

	"github.com/escher-sched/escher/api/access"
	"github.com/escher-sched/escher/controlplane/submitter"
	"github.com/escher-sched/escher/esl/share"
	"github.com/escher-sched/escher/nodeagent/serve/answer"
	"github.com/escher-sched/escher/types"
	"github.com/escher-sched/escher/types/action"
)

// Handler serves the API. Without cfg.Authority the listener must accept administrators only.
func Handler(cfg Config) http.Handler {
	mux, _ := handler(cfg)
	return mux
}

// ForTasks serves the API to the sockets of tasks, with the rights of tasks: see access.OfTask. Of cfg, it uses
// the store, the clock, the log and the voice.
func ForTasks(cfg Config) http.Handler {
	return Handler(Config{
		Store: cfg.Store, Authority: access.New(cfg.Store, cfg.Now, cfg.Log), Identify: ofTasks, Voice: cfg.Voice, Now: cfg.Now, Log: cfg.Log,
	})
}

// handler returns the handler, and the API that it serves.
func handler(cfg Config) (http.Handler, huma.API) {
	if cfg.Log == nil {
		cfg.Log = zap.NewNop()
	}
	if cfg.Voice == nil {
		cfg.Voice = action.Action.String
	}
	cfg.Store = submitter.Store{Store: cfg.Store, Rules: share.Rules(cfg.Store), Committed: noteCommit}
	s := &service{cfg: cfg, explaining: make(chan struct{}, 2*runtime.GOMAXPROCS(0))}
	mux := newGuard(cfg, func(pattern string) string { return operationOf(s.api.OpenAPI(), pattern) })
	conf := huma.Config{
		OpenAPI: &huma.OpenAPI{
			OpenAPI: "3.1.0",
			Info:    &huma.Info{Title: "Escher", Version: cfg.Version, Description: "Tasks, resources and policies of a cluster."},
			Components: &huma.Components{
				Schemas: huma.NewMapRegistry("#/components/schemas/", schemaName),
			},
			OnAddOperation: []huma.AddOpFunc{describeBody},
		},
		OpenAPIPath:                  "/openapi",
		Formats:                      map[string]huma.Format{"application/json": huma.DefaultJSONFormat, "json": huma.DefaultJSONFormat},
		DefaultFormat:                "application/json",
		RejectUnknownQueryParameters: true,
		Transformers:                 []huma.Transformer{refuse},
	}
	s.api = humago.New(mux, conf)
	s.alias()
	for _, register := range []func(){s.access, s.cluster, s.tasks, s.jobs, s.resources, s.history, s.changes, s.follow, s.byAgent, s.keys, s.output, s.inside, s.images, s.administered, s.certificates, s.namespaces, s.secrets} {
		register()
	}
	mux.HandleFunc("GET /docs", docsOf(s.api))
	mux.ServeMux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		answer.Refuse(w, types.Errorf(types.NotFound, "%s %s: there is no such operation: /openapi.json lists all", r.Method, types.Cut(r.URL.Path, 200)))
	})
	return mux, s.api
}

// operationOf returns the id of the operation of a pattern, METHOD PATH; empty if there is none.
func operationOf(api *huma.OpenAPI, pattern string) string {
	method, path, _ := strings.Cut(pattern, " ")
	item := api.Paths[path]
	if item == nil {
		return ""
	}
	op := map[string]*huma.Operation{
		http.MethodGet: item.Get, http.MethodPut: item.Put, http.MethodPost: item.Post, http.MethodDelete: item.Delete, http.MethodPatch: item.Patch,
	}[method]
	if op == nil {
		return ""
	}
	return op.OperationID
}
