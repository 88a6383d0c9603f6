package contexts

import (
	"context"
	"time"

	"github.com/escher-sched/escher/api/oidc"
	"github.com/escher-sched/escher/types"
)

// renewBefore is how long before its end a token is renewed.
const renewBefore = time.Minute

// Fresh returns the place with a token that is valid now: it renews that of a login that ends soon, and stores
// it in the file of contexts. Denied: the login has ended.
func (p Place) Fresh(ctx context.Context, getenv func(string) string, now func() time.Time) (Place, error) {
	if p.Login == nil || p.Login.fresh(now()) {
		return p, nil
	}
	err := Change(ctx, Path(getenv), func(f *File) error {
		c, ok := f.Contexts[p.Context]
		if !ok || c.Login == nil {
			return types.Errorf(types.Denied, "context %s: it has another login by now: run the command again", p.Context)
		}
		if !c.Login.fresh(now()) { // else another process has renewed it
			if err := c.renew(ctx, p.Context, now); err != nil {
				return err
			}
			f.Contexts[p.Context] = c
		}
		p.Token, p.Login = c.Token, c.Login
		return nil
	})
	if err != nil && ctx.Err() == nil && now().Before(p.Login.Expires) {
		return p, nil // the token is valid for now
	}
	return p, err
}

// fresh reports whether the token of a login is valid for a while.
func (l *Login) fresh(now time.Time) bool { return now.Add(renewBefore).Before(l.Expires) }

// renew renews the token of a context. Denied: its login has ended.
func (c *Context) renew(ctx context.Context, name string, now func() time.Time) error {
	again := "log in again with escher login " + c.Server + " --name " + name
	if c.Login.Renewal == "" {
		return types.Errorf(types.Denied, "context %s: its token expired at %s, and the issuer gave none to renew it: %s", name, c.Login.Expires.UTC().Format(time.RFC3339), again)
	}
	flow, err := oidc.NewFlow(ctx, oidc.Login{Issuer: c.Login.Issuer, ClientID: c.Login.ClientID}, c.Login.CA, now)
	if err != nil {
		return types.Errorf(types.ClassOf(err), "context %s: %w", name, err)
	}
	tokens, err := flow.Renew(ctx, c.Login.Renewal)
	if types.Is(err, types.Denied) || types.Is(err, types.Precondition) {
		return types.Errorf(types.Denied, "context %s: %w: %s", name, err, again)
	}
	if err != nil {
		return types.Errorf(types.ClassOf(err), "context %s: %w", name, err)
	}
	c.Token, c.Login = tokens.Token, NewLogin(c.Login.Issuer, c.Login.ClientID, c.Login.CA, tokens)
	return nil
}

// NewLogin returns the login at an issuer with the tokens that it gave.
func NewLogin(issuer, clientID, ca string, t oidc.Tokens) *Login {
	return &Login{Issuer: issuer, ClientID: clientID, CA: ca, Renewal: t.Renewal, Expires: t.Expires}
}
