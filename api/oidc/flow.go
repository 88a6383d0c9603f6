package oidc

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"

	"github.com/escher-sched/escher/types"
	"github.com/escher-sched/escher/types/issued"
)

// Tokens are what an issuer gave a user: a token for servers until it expires, and one to renew it, which may
// be empty.
type Tokens struct {
	Token, Renewal string
	Expires        time.Time
}

// Flow gets tokens for a user.
type Flow struct {
	login    Login
	provider *oidc.Provider
	conf     oauth2.Config
	client   *http.Client
	now      func() time.Time
}

// Code is what the user confirms at the issuer: the code at the address, until a time.
type Code struct {
	URL, Code string
	// Filled is the address with the code; empty if the issuer has none.
	Filled  string
	Expires time.Time

	device *oauth2.DeviceAuthResponse
}

// codeLife is how long a code is valid if the issuer does not say.
const codeLife = 15 * time.Minute

// NewFlow asks the issuer of a login about itself. ca is the file of the authorities of its certificate; empty
// means the system's. Unavailable: it does not answer.
func NewFlow(ctx context.Context, login Login, ca string, now func() time.Time) (*Flow, error) {
	t, err := newTransport(ca)
	if err != nil {
		return nil, err
	}
	f := &Flow{login: login, now: now}
	f.provider, err = oidc.NewProvider(oidc.ClientContext(ctx, t.client()), login.Issuer)
	t.fails = false // its refusals say why
	if f.client = t.client(); err != nil {
		return nil, types.Errorf(types.Unavailable, "ask the issuer %.200s about itself: %.300s: give the authority of its certificate with --oidc-ca, or ask an administrator whether it runs", login.Issuer, err)
	}
	var meta struct {
		Scopes []string `json:"scopes_supported"`
	}
	_ = f.provider.Claims(&meta) // without scopes, all are requested
	scopes := slices.DeleteFunc(slices.Clone(login.Scopes), func(s string) bool { return len(meta.Scopes) > 0 && !slices.Contains(meta.Scopes, s) })
	f.conf = oauth2.Config{ClientID: login.ClientID, Endpoint: f.provider.Endpoint(), Scopes: scopes}
	f.conf.Endpoint.AuthStyle = oauth2.AuthStyleInParams // such a client has no secret
	return f, nil
}

// with returns a context of requests to the issuer.
func (f *Flow) with(ctx context.Context) context.Context { return oidc.ClientContext(ctx, f.client) }

// Begin asks for a code. Precondition: the issuer has no device flow.
func (f *Flow) Begin(ctx context.Context) (Code, error) {
	if f.conf.Endpoint.DeviceAuthURL == "" {
		return Code{}, types.Errorf(types.Precondition, "log in at %.200s: it has no device authorization endpoint: have its administrator enable the device flow, or log in with a token of the cluster by --token-file", f.login.Issuer)
	}
	d, err := f.conf.DeviceAuth(f.with(ctx))
	if err != nil {
		return Code{}, f.failed(ctx, "log in at", err)
	}
	if d.Expiry.IsZero() {
		d.Expiry = f.now().Add(codeLife)
	}
	c := Code{URL: d.VerificationURI, Code: d.UserCode, Filled: d.VerificationURIComplete, Expires: d.Expiry, device: d}
	for _, address := range []string{c.URL, c.Filled} {
		u, err := url.Parse(address)
		if address != "" && (err != nil || u.Scheme != "https" || !issued.IsPrintable(address)) || c.URL == "" || !issued.IsPrintable(c.Code) {
			return Code{}, types.Errorf(types.Unavailable, "log in at %.200s: it names no address with https to confirm the login: have its administrator look at the device flow", f.login.Issuer)
		}
	}
	return c, nil
}

// Wait waits until the user has confirmed a code. Denied: the user has refused, or the code has expired.
func (f *Flow) Wait(ctx context.Context, c Code) (Tokens, error) {
	for {
		t, err := f.conf.DeviceAccessToken(f.with(ctx), c.device)
		if err == nil {
			return f.tokens(ctx, t)
		}
		switch refusal, answered := errors.AsType[*oauth2.RetrieveError](err); {
		case ctx.Err() != nil:
			return Tokens{}, context.Cause(ctx)
		case !f.now().Before(c.Expires) || answered && refusal.ErrorCode == "expired_token":
			return Tokens{}, types.Errorf(types.Denied, "log in at %.200s: the code was not confirmed in time: run escher login again", f.login.Issuer)
		case answered && refusal.Response.StatusCode < http.StatusInternalServerError && refusal.Response.StatusCode != http.StatusTooManyRequests:
			return Tokens{}, f.failed(ctx, "log in at", err)
		}
		// The connection is lost, or the issuer is: the next attempt is after its interval.
	}
}

// Renew returns further tokens for one that renews. Denied: the issuer has ended the login.
func (f *Flow) Renew(ctx context.Context, renewal string) (Tokens, error) {
	t, err := f.conf.TokenSource(f.with(ctx), &oauth2.Token{RefreshToken: renewal}).Token()
	if err != nil {
		return Tokens{}, f.failed(ctx, "renew the login at", err)
	}
	return f.tokens(ctx, t)
}

// tokens returns the tokens in an answer. They come from the issuer itself, so servers alone check the
// signature.
func (f *Flow) tokens(ctx context.Context, t *oauth2.Token) (Tokens, error) {
	raw, _ := t.Extra("id_token").(string)
	if raw == "" {
		return Tokens{}, types.Errorf(types.Precondition, "log in at %.200s: it sends no id_token: have its administrator allow the scope openid for client %.80q", f.login.Issuer, f.login.ClientID)
	}
	id, err := f.provider.Verifier(&oidc.Config{ClientID: f.login.ClientID, InsecureSkipSignatureCheck: true, Now: f.now}).Verify(f.with(ctx), raw)
	if err != nil {
		return Tokens{}, types.Errorf(types.Precondition, "log in at %.200s: its token is not one for client %.80q: %.300s", f.login.Issuer, f.login.ClientID, err)
	}
	return Tokens{Token: raw, Renewal: t.RefreshToken, Expires: id.Expiry}, nil
}

// failed returns the error of a request to the issuer, without what it sent.
func (f *Flow) failed(ctx context.Context, what string, err error) error {
	refusal, answered := errors.AsType[*oauth2.RetrieveError](err)
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case answered && refusal.ErrorCode != "" && refusal.Response.StatusCode < http.StatusInternalServerError:
		return types.Errorf(types.Denied, "%s %.200s: it refuses: %.80q %.200q", what, f.login.Issuer, refusal.ErrorCode, refusal.ErrorDescription)
	case answered:
		return types.Errorf(types.Unavailable, "%s %.200s: it answers %s: try again later", what, f.login.Issuer, refusal.Response.Status)
	}
	return types.Errorf(types.Unavailable, "%s %.200s: %.300s: try again", what, f.login.Issuer, err)
}
