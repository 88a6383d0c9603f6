package rest

import (
	"context"
	"net/http"
	"time"

	"github.com/escher-sched/escher/api/access"
	"github.com/escher-sched/escher/api/document"
	"github.com/escher-sched/escher/api/oidc"
	"github.com/escher-sched/escher/nodeagent/serve/tasksocket"
	"github.com/escher-sched/escher/types"
	"github.com/escher-sched/escher/types/issued"
	"github.com/escher-sched/escher/types/rights"
)

// me is the answer of whoAmI.
type me struct {
	Subject    string           `json:"subject" doc:"user:NAME or service:NAME"`
	Groups     []string         `json:"groups,omitempty"`
	Token      string           `json:"token,omitempty" doc:"the id of the token of the request"`
	Role       rights.Role      `json:"role,omitempty" doc:"the most that the token allows"`
	Namespaces []string         `json:"namespaces,omitempty" doc:"where the token is valid"`
	Expires    *time.Time       `json:"expires,omitempty" doc:"when the token ends"`
	Task       *tasksocket.Self `json:"task,omitempty" doc:"the task that sends this, by its socket"`
	Root       bool             `json:"root,omitempty" doc:"whether the caller administers the machine of the server, and so has every right"`
}

// answered is the answer of canI.
type answered struct {
	Allowed bool   `json:"allowed"`
	Reason  string `json:"reason,omitempty" doc:"if it is not allowed: which right is missing"`
}

// newRight is the body of grantRight.
type newRight struct {
	Subjects   []string `json:"subjects" doc:"the subjects that get it: user:NAME, group:NAME or service:NAME"`
	Role       string   `json:"role,omitempty" doc:"viewer, member, operator or administrator"`
	Allow      []string `json:"allow,omitempty" doc:"parts of roles, such as \"read tasks\""`
	Namespaces []string `json:"namespaces" doc:"names of namespaces, or * for the cluster with all of them"`
}

// newToken is the body of createToken.
type newToken struct {
	Subject    string         `json:"subject,omitempty" doc:"user:NAME or service:NAME; the caller if it is left out"`
	Groups     []string       `json:"groups,omitempty" doc:"groups of the subject"`
	Role       string         `json:"role,omitempty" doc:"bounds what the token allows"`
	Namespaces []string       `json:"namespaces,omitempty" doc:"bounds where it is valid"`
	Life       types.Duration `json:"life,omitempty" doc:"how long it is valid, such as 720h; 2160h if it is left out"`
	Note       string         `json:"note,omitempty" doc:"a text for people"`
}

// madeToken is the answer of createToken.
type madeToken struct {
	ID    string `json:"id"`
	Token string `json:"token" doc:"the token; it is not stored, and not shown again"`
}

// nothing is an empty answer.
type nothing struct{}

// Named is an input that names an object of the cluster.
type Named struct {
	Name string `path:"name" maxLength:"63" doc:"the name"`
}

// OnNamed is Named with a body.
type OnNamed struct {
	Named
	RawBody []byte `contentType:"application/json"`
}

func (b *OnNamed) raw() []byte { return b.RawBody }

// OnlyBody is an input with a body.
type OnlyBody struct {
	RawBody []byte `contentType:"application/json"`
}

func (b *OnlyBody) raw() []byte { return b.RawBody }

// access registers the operations on identities, tokens and rights.
func (s *service) access() {
	const tag = "access"
	m := access.Manager{Store: s.cfg.Store, Now: s.cfg.Now}
	add(s, operation{http.MethodGet, "/v1/login", "getLogin", "Tell how to get a token of the issuer; needs no token", tag}, func(context.Context, *struct{}) (oidc.Login, error) {
		if s.cfg.Authority == nil {
			return oidc.Login{}, nil
		}
		return s.cfg.Authority.Issuer.Login(), nil
	})
	add(s, operation{http.MethodGet, "/v1/whoami", "whoAmI", "Show the identity of the caller", tag}, func(ctx context.Context, _ *struct{}) (me, error) {
		c := access.From(ctx)
		out := me{Subject: c.Subject, Groups: c.Groups, Token: c.Token, Role: c.Role, Namespaces: c.Namespaces, Root: c.Root}
		if c.Task != nil {
			out.Task = &c.Task.Self
		}
		if !c.Expires.IsZero() {
			at := c.Expires.UTC()
			out.Expires = &at
		}
		return out, nil
	})
	add(s, operation{http.MethodGet, "/v1/can-i", "canI", "Tell whether the caller has a right", tag}, canI)
	add(s, operation{http.MethodGet, "/v1/rights", "listRights", "List rights, by name: those that the caller has or may give", tag},
		func(ctx context.Context, in *Part) (page[document.Right], error) {
			all, revision, err := m.Rights(ctx, access.From(ctx))
			return documents(in, revision, all, document.RightOf, func(r document.Right) string { return r.Name }), err
		})
	post(s, operation{http.MethodPut, "/v1/rights/{name}", "grantRight", "Give subjects a role, or parts of one, in namespaces", tag},
		func(ctx context.Context, in *OnNamed, b newRight) (nothing, error) {
			return nothing{}, m.Grant(ctx, access.From(ctx), in.Name, types.Right{Subjects: issued.Each(b.Subjects, issued.Subject), Role: rights.Role(b.Role), Allow: b.Allow, Namespaces: b.Namespaces})
		})
	add(s, operation{http.MethodDelete, "/v1/rights/{name}", "revokeRight", "Remove a right; open requests that need it end", tag},
		func(ctx context.Context, in *Named) (nothing, error) {
			return nothing{}, m.Revoke(ctx, access.From(ctx), in.Name)
		})
	add(s, operation{http.MethodGet, "/v1/tokens", "listTokens", "List tokens, by id: those of the caller, or all as an administrator", tag},
		func(ctx context.Context, in *Part) (page[document.Token], error) {
			all, revision, err := m.Tokens(ctx, access.From(ctx))
			return documents(in, revision, all, document.TokenOf, func(t document.Token) string { return t.ID }), err
		})
	post(s, operation{http.MethodPost, "/v1/tokens", "createToken", "Make a token for the caller, or for any subject as an administrator", tag},
		func(ctx context.Context, _ *OnlyBody, b newToken) (madeToken, error) {
			by := access.From(ctx)
			c := types.Credential{Subject: issued.Subject(b.Subject), Groups: issued.Each(b.Groups, issued.Name), Role: rights.Role(b.Role), Namespaces: b.Namespaces, Note: b.Note}
			if c.Subject == "" {
				c.Subject = by.Subject
			}
			id, token, err := m.MakeToken(ctx, by, c, time.Duration(b.Life))
			return madeToken{id, token}, err
		})
	add(s, operation{http.MethodDelete, "/v1/tokens/{name}", "revokeToken", "Revoke a token; open requests of its bearer end", tag},
		func(ctx context.Context, in *Named) (nothing, error) {
			return nothing{}, m.RevokeToken(ctx, access.From(ctx), in.Name)
		})
}

// canI is the handler of canI.
func canI(ctx context.Context, in *struct {
	Verb      string `query:"verb" required:"true" enum:"read,write,enter" doc:"what to do"`
	Kind      string `query:"kind" required:"true" maxLength:"32" doc:"kind of objects, such as tasks"`
	Namespace string `query:"namespace" maxLength:"63" doc:"where; in the cluster if it is left out"`
},
) (answered, error) {
	n, err := rights.ParseNeed(in.Verb + " " + in.Kind)
	if err != nil {
		return answered{}, types.Errorf(types.Invalid, "kind: %w", err)
	}
	if err := access.From(ctx).May(n, in.Namespace); err != nil {
		return answered{Reason: err.Error()}, nil
	}
	return answered{Allowed: true}, nil
}

// documents returns a page of stored values.
func documents[T, D any](in *Part, revision int64, all []access.Stored[T], of func(access.Stored[T]) D, name func(D) string) page[D] {
	out := make([]D, len(all))
	for i, x := range all {
		out[i] = of(x)
	}
	return paged(in, revision, out, name)
}

// signing is the body of certifyNode.
type signing struct {
	Request string `json:"request" maxLength:"16384" doc:"signing request with the key of the node, in PEM"`
}

// certified is the answer of certifyNode.
type certified struct {
	Certificate string    `json:"certificate" doc:"certificate of the node, in PEM"`
	Expires     time.Time `json:"expires" doc:"when it ends"`
}

// certificates registers the signing of certificates.
func (s *service) certificates() {
	op := operation{http.MethodPost, "/v1/nodes/{node}/certificate", "certifyNode", "Sign the certificate of the agent of a node, which asks for it with its token or its last certificate", "access"}
	post(s, op, func(ctx context.Context, in *NodeBody, b signing) (out certified, err error) {
		if err := types.ValidateName("node", in.Node); err != nil {
			return out, err
		}
		if s.cfg.CA == nil {
			return out, types.Errorf(types.Precondition, "certify node %s: this server signs no certificates: start it with --api-ca, or let the agent go on with its token", in.Node)
		}
		cert, key, expires, err := s.cfg.CA.Sign([]byte(b.Request), in.Node, s.cfg.Now())
		if err != nil {
			return out, err
		}
		m := access.Manager{Store: s.cfg.Store, Now: s.cfg.Now}
		return certified{string(cert), expires.UTC()}, m.Certify(ctx, access.From(ctx), in.Node, key, expires)
	})
}
