package rest

import (
	"context"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/escher-sched/escher/api/access"
	"github.com/escher-sched/escher/api/document"
	"github.com/escher-sched/escher/api/requests"
	"github.com/escher-sched/escher/api/secrets"
	"github.com/escher-sched/escher/controlplane"
	given "github.com/escher-sched/escher/nodeagent/secrets"
	"github.com/escher-sched/escher/types"
)

const (
	// secretRate bounds the secrets that a caller sets in a second, and secretBurst those at once: all of a
	// namespace. etcd keeps each value until its next compaction, and a value is large.
	secretRate  = 1
	secretBurst = 256
)

// newSecret is the body of setSecret.
type newSecret struct {
	Values map[string]string `json:"values,omitempty" doc:"values that are text, by their names"`
	Base64 map[string][]byte `json:"base64,omitempty" doc:"other values, in base64, by their names"`
}

// bound is the body of openSecrets.
type bound struct {
	Namespace string `json:"namespace" doc:"the namespace of the task"`
	Task      string `json:"task" doc:"the id of the task"`
	Attempt   int    `json:"attempt" doc:"its attempt, which is bound to the node"`
}

// opened is the answer of openSecrets.
type opened struct {
	Secrets map[string]map[string][]byte `json:"secrets" doc:"the values, in base64, by the names of secret and value"`
}

// BySecret is an input that names a secret of a namespace.
type BySecret struct {
	InNamespace
	Named
}

// OnSecret is BySecret with a body.
type OnSecret struct {
	BySecret
	RawBody []byte `contentType:"application/json"`
}

func (b *OnSecret) raw() []byte { return b.RawBody }

// secrets registers the operations on secrets.
func (s *service) secrets() {
	const path, tag = "/v1/namespaces/{namespace}/secrets", "secrets"
	stored := secrets.Service{Store: s.cfg.Store, Keys: s.cfg.Secrets, Now: s.cfg.Now}
	writes := access.NewGauges(access.Use{Rate: secretRate, Burst: secretBurst}, s.cfg.Now)
	add(s, operation{http.MethodGet, path, "listSecrets", "List secrets, by name: names, sizes and times, never values", tag},
		func(ctx context.Context, in *InPart) (page[document.Secret], error) {
			if err := types.ValidateName("namespace", in.Namespace); err != nil {
				return page[document.Secret]{}, err
			}
			all, revision, err := stored.List(ctx, in.Namespace, in.After, in.Limit+1) // one more tells of a next page
			out := make([]document.Secret, len(all))
			for i, x := range all {
				out[i] = document.SecretOf(x)
			}
			return paged(&in.Part, revision, out, func(x document.Secret) string { return x.Name }), err
		})
	post(s, operation{http.MethodPut, path + "/{name}", "setSecret", "Set the values of a secret, in place of those before", tag},
		func(ctx context.Context, in *OnSecret, b newSecret) (out requests.Committed, err error) {
			if err := types.ValidateName("namespace", in.Namespace); err != nil {
				return out, err
			}
			values := maps.Clone(b.Base64)
			for name, text := range b.Values {
				if _, twice := values[name]; twice {
					return out, types.Errorf(types.Invalid, "values.%s: is in base64, too: give one of them", types.Cut(name, types.MaxName))
				}
				if values == nil {
					values = make(map[string][]byte)
				}
				values[name] = []byte(text)
			}
			subject := access.From(ctx).Subject
			if err := writes.Message(subject); err != nil {
				return out, types.Errorf(types.Unavailable, "set secret %s: %w", types.Cut(in.Name, types.MaxName), err)
			}
			_, user, _ := strings.Cut(subject, ":")
			return out, stored.Set(ctx, user, in.Namespace, in.Name, values)
		})
	add(s, operation{http.MethodDelete, path + "/{name}", "removeSecret", "Remove a secret; running tasks keep the values that they have", tag},
		func(ctx context.Context, in *BySecret) (out requests.Committed, err error) {
			if err := types.ValidateName("namespace", in.Namespace); err != nil {
				return out, err
			}
			return out, stored.Remove(ctx, in.Namespace, in.Name)
		})
	post(s, operation{http.MethodPost, "/v1/nodes/{node}/secrets", "openSecrets", "Open the secrets of an attempt that is bound to a node, for the agent of the node", tag},
		func(ctx context.Context, in *NodeBody, b bound) (out opened, err error) {
			if err := onlyAgent(ctx, in.Node); err != nil {
				return out, err
			}
			out.Secrets, err = stored.For(ctx, in.Node, b.Namespace, b.Task, b.Attempt)
			noteOpened(ctx, in.Node, b, slices.Sorted(maps.Keys(out.Secrets))...)
			return out, err
		})
	post(s, operation{http.MethodPost, "/v1/nodes/{node}/secrets/registry", "openLogin", "Open the user and password of a namespace for the registry of an attempt's image, for the agent of its node", tag},
		func(ctx context.Context, in *NodeBody, b bound) (out given.Login, err error) {
			if err := onlyAgent(ctx, in.Node); err != nil {
				return out, err
			}
			out, err = stored.Login(ctx, in.Node, b.Namespace, b.Task, b.Attempt)
			noteOpened(ctx, in.Node, b, out.Secret)
			return out, err
		})
}

// onlyAgent refuses all callers but the agent of a node: Denied.
func onlyAgent(ctx context.Context, node string) error {
	if by := access.From(ctx); by.Subject != types.NodeSubject+":"+node {
		return types.Errorf(types.Denied, "open secrets: %s is not the agent of node %s: no right gives values of secrets", by.Subject, types.Cut(node, types.MaxName))
	}
	return nil
}

// noteOpened records which secrets an agent got for an attempt.
func noteOpened(ctx context.Context, node string, b bound, names ...string) {
	if types.IsName(b.Namespace) && types.IsName(b.Task) {
		object := strings.TrimPrefix(controlplane.BindingKey(node, b.Namespace, b.Task, b.Attempt), controlplane.Root)
		noteObject(ctx, b.Namespace, strings.TrimSpace(strings.Join(append([]string{object}, names...), " ")))
	}
}
