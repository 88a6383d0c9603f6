package oidc_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/escher-sched/escher/api/oidc"
	"github.com/escher-sched/escher/api/oidc/oidctest"
	"github.com/escher-sched/escher/types"
)

// login is what a server says about an issuer.
func login(t *testing.T, i *oidctest.Issuer) oidc.Login {
	t.Helper()
	v, err := oidc.New(config(i), time.Now, nil)
	if err != nil {
		t.Fatal(err)
	}
	return v.Login()
}

// newFlow returns a flow with an issuer.
func newFlow(t *testing.T) (*oidctest.Issuer, *oidc.Flow) {
	t.Helper()
	i := oidctest.Start(t, time.Now)
	f, err := oidc.NewFlow(t.Context(), login(t, i), i.CA, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	return i, f
}

// TestFlow: a user confirms a code, and the token is renewed, each time by the last token of renewal.
func TestFlow(t *testing.T) {
	t.Parallel() // it waits for the interval of the issuer
	i, f := newFlow(t)
	c, err := f.Begin(t.Context())
	if err != nil || c.Code != "ABCD-EFGH" || c.URL != i.URL+"/activate" || c.Filled != c.URL+"?user_code=ABCD-EFGH" {
		t.Fatalf("%+v, %v", c, err)
	}
	i.Set(func(s *oidctest.State) { s.Flaky = true })
	first, err := f.Wait(t.Context(), c)
	if err != nil || first.Token == "" || first.Renewal == "" || time.Until(first.Expires) < 59*time.Minute {
		t.Fatalf("%+v, %v", first, err)
	}
	second, err := f.Renew(t.Context(), first.Renewal)
	if err != nil || second.Token == first.Token || second.Renewal == first.Renewal {
		t.Fatalf("%+v, %v", second, err)
	}
	v, err := oidc.New(config(i), time.Now, nil)
	if err != nil {
		t.Fatal(err)
	}
	if u, err := v.Verify(t.Context(), second.Token); err != nil || u.Name != alice {
		t.Errorf("%+v, %v", u, err)
	}
	for name, c := range map[string]struct {
		change func(*oidctest.State)
		class  types.Class
		says   string
	}{
		"ended":              {func(s *oidctest.State) { s.Ended = true }, types.Denied, `it refuses: "invalid_grant"`},
		"down":               {func(s *oidctest.State) { s.Down = true }, types.Unavailable, "it answers 503"},
		"without a token":    {func(s *oidctest.State) { s.NoToken = true }, types.Precondition, "it sends no id_token"},
		"for another client": {func(s *oidctest.State) { s.Claims = map[string]any{"aud": "x"} }, types.Precondition, "not one for client"},
		"garbage":            {func(s *oidctest.State) { s.Garbage = true }, types.Unavailable, "try again"},
	} {
		i.Set(func(s *oidctest.State) {
			*s = oidctest.State{Life: time.Hour}
			c.change(s)
		})
		got, err := f.Renew(t.Context(), second.Renewal)
		if !types.Is(err, c.class) || !strings.Contains(fmt.Sprint(err), c.says) || strings.Contains(fmt.Sprint(err), second.Renewal) || got.Token != "" {
			t.Errorf("%s: %v", name, err)
		}
		if name == "without a token" || name == "for another client" || name == "garbage" { // the old one has been used
			i.Set(func(s *oidctest.State) { *s = oidctest.State{Life: time.Hour} })
			c, err := f.Begin(t.Context())
			if err == nil {
				second, err = f.Wait(t.Context(), c)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	i.Set(func(s *oidctest.State) { *s = oidctest.State{} })
	if _, err := f.Renew(t.Context(), first.Renewal); !types.Is(err, types.Denied) {
		t.Errorf("an old token of renewal: %v", err)
	}
}

// TestFlowEnds is a table of logins that end without a token.
func TestFlowEnds(t *testing.T) {
	t.Parallel()
	i, f := newFlow(t)
	code := func() oidc.Code {
		c, err := f.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	denied := code()
	i.Set(func(s *oidctest.State) { s.Denied = true })
	if _, err := f.Wait(t.Context(), denied); !types.Is(err, types.Denied) || !strings.Contains(err.Error(), "access_denied") {
		t.Errorf("the user refuses: %v", err)
	}
	interrupted, cancel := context.WithCancelCause(t.Context())
	cause := types.Errorf(types.Unavailable, "interrupted")
	cancel(cause)
	if _, err := f.Wait(interrupted, code()); err != cause {
		t.Errorf("interrupted: %v", err)
	}
	late := code()
	late.Expires = time.Now()
	i.Set(func(s *oidctest.State) { s.Down = true })
	if _, err := f.Wait(t.Context(), late); !types.Is(err, types.Denied) || !strings.Contains(err.Error(), "not confirmed in time") {
		t.Errorf("too late: %v", err)
	}
	if _, err := f.Begin(t.Context()); !types.Is(err, types.Unavailable) {
		t.Errorf("down: %v", err)
	}
	if _, err := oidc.NewFlow(t.Context(), login(t, i), i.CA, time.Now); !types.Is(err, types.Unavailable) {
		t.Errorf("down: %v", err)
	}
	i.Set(func(s *oidctest.State) { *s = oidctest.State{Address: "http://evil.example.org"} })
	if _, err := f.Begin(t.Context()); !types.Is(err, types.Unavailable) || !strings.Contains(err.Error(), "no address with https") {
		t.Errorf("an address without encryption: %v", err)
	}
	i.Set(func(s *oidctest.State) { *s = oidctest.State{NoDevice: true} })
	f, err := oidc.NewFlow(t.Context(), login(t, i), i.CA, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Begin(t.Context()); !types.Is(err, types.Precondition) || !strings.Contains(err.Error(), "enable the device flow") || !strings.Contains(err.Error(), "--token-file") {
		t.Errorf("without a device flow: %v", err)
	}
	if _, err := oidc.NewFlow(t.Context(), login(t, i), "/nonexistent", time.Now); !types.Is(err, types.Invalid) {
		t.Errorf("no authority: %v", err)
	}
	if _, err := oidc.NewFlow(t.Context(), login(t, i), "", time.Now); !types.Is(err, types.Unavailable) || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("another authority: %v", err)
	}
}
