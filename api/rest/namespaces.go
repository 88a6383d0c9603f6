package rest

import (
	"bytes"
	"context"
	"net/http"

	"github.com/escher-sched/escher/api/document"
	"github.com/escher-sched/escher/api/requests"
	"github.com/escher-sched/escher/controlplane/audit"
	"github.com/escher-sched/escher/controlplane/manifest"
	"github.com/escher-sched/escher/controlplane/quotas"
	"github.com/escher-sched/escher/types"
)

// describedNamespace is a namespace with the budgets that hold, and how much of them is used.
type describedNamespace struct {
	document.Namespace
	Allowed manifest.Budget `json:"allowed" doc:"the budgets that hold: those that are set, and the built-in ones"`
	Used    *use            `json:"used,omitempty"`
	Closed  string          `json:"closed,omitempty" doc:"the budget that is used up: nothing can be added"`
}

// settings is the body of setNamespace.
type settings struct {
	manifest.Namespace
	Name string `json:"name,omitempty" doc:"the namespace, or nothing"`
}

// setting is the input of setNamespace.
type setting struct {
	InBody
	IfRevision int64 `query:"ifRevision" minimum:"-1" default:"-1" doc:"refuse unless the settings are of this revision; 0 means that there are none yet"`
}

// use is what a namespace uses of its budgets.
type use struct {
	Keys    int64 `json:"keys"`
	Bytes   int64 `json:"bytes"`
	Pending int64 `json:"pending"`
}

// audited is the answer of audit.
type audited struct {
	audit.Report
	Violations map[audit.Guarantee]int `json:"violations" doc:"how many findings there are about each guarantee; all are listed"`
}

// namespaces registers the operations on the settings of namespaces, and the audit.
func (s *service) namespaces() {
	const path, tag = "/v1/namespaces/{namespace}", "cluster"
	add(s, operation{http.MethodGet, path, "getNamespace", "Describe a namespace: its settings, and how much of its budgets it uses", tag}, s.getNamespace)
	post(s, operation{http.MethodPut, path, "setNamespace", "Set the settings of a namespace; what is left out has the built-in default", tag},
		func(ctx context.Context, in *setting, b settings) (out requests.Committed, err error) {
			if b.Name != "" && b.Name != in.Namespace {
				return out, types.Errorf(types.Invalid, "name: %q is not %s, whose settings are set: leave it out", types.Cut(b.Name, types.MaxName), in.Namespace)
			}
			b.Namespace.Name = in.Namespace
			want, err := b.Settings()
			if err != nil {
				return out, err
			}
			client, err := s.client(ctx, in.Namespace)
			if err != nil {
				return out, err
			}
			if in.IfRevision == 0 {
				return out, quotas.Create(ctx, client, in.Namespace, want)
			}
			was, err := client.GetNamespace(ctx, in.Namespace)
			if err != nil && !types.Is(err, types.NotFound) {
				return out, err
			}
			return out, quotas.Set(ctx, client, in.Namespace, func(is *types.Namespace) error {
				if in.IfRevision > 0 && (was.Revision != in.IfRevision || !bytes.Equal(types.Encode(0, is), types.Encode(0, &was.Namespace))) {
					return types.Errorf(types.Conflict, "set namespace %s: it has changed since revision %d: read it again", in.Namespace, in.IfRevision)
				}
				want.Extra = is.Extra
				*is = want
				return nil
			})
		})
	add(s, operation{http.MethodDelete, path, "removeNamespace", "Delete the settings of a namespace that is not in use", tag},
		func(ctx context.Context, in *InNamespace) (out requests.Committed, err error) {
			client, err := s.client(ctx, in.Namespace)
			if err == nil {
				err = quotas.Remove(ctx, client, in.Namespace)
			}
			return out, err
		})
	long(s, s.described(operation{http.MethodGet, "/v1/audit", "audit", "Check the invariants of the cluster", tag}),
		func(ctx context.Context, _ *struct{}, tell func(list[audit.Finding])) (out audited, err error) {
			out.Report, err = audit.Run(ctx, s.cfg.Store, func(unfinished []audit.Finding) { tell(list[audit.Finding]{s.spoken(unfinished)}) })
			out.Violations = make(map[audit.Guarantee]int)
			for _, g := range audit.Guarantees() {
				out.Violations[g] = 0
			}
			out.Findings = s.spoken(out.Findings)
			for _, f := range out.Findings {
				out.Violations[f.Guarantee]++
			}
			return out, err
		})
}

// spoken returns findings with their remedies in the words of the program.
func (s *service) spoken(found []audit.Finding) []audit.Finding {
	out := append([]audit.Finding{}, found...)
	for i := range out {
		out[i].Text = out[i].Text.In(s.cfg.Voice)
	}
	return out
}

func (s *service) getNamespace(ctx context.Context, in *InNamespace) (out describedNamespace, err error) {
	client, err := s.client(ctx, in.Namespace)
	if err != nil {
		return out, err
	}
	n, err := client.GetNamespace(ctx, in.Namespace)
	if err != nil && !types.Is(err, types.NotFound) {
		return out, err
	}
	out.Namespace = document.NamespaceOf(&n)
	allowed := n.Allowed()
	out.Allowed = *manifest.FromNamespace(&types.Namespace{Budget: &allowed}).Budget
	closed, err := client.Closed(ctx, in.Namespace)
	if err != nil {
		return out, err
	}
	if closed != nil {
		out.Closed = closed.Reason
	}
	if s.cfg.Used == nil {
		return out, nil
	}
	used, err := s.cfg.Used(ctx, s.cfg.Store, in.Namespace)
	out.Used = &use{used.Keys, used.Bytes, used.Pending}
	return out, err
}
