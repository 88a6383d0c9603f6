package contexts

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/escher-sched/escher/api/oidc"
	"github.com/escher-sched/escher/api/oidc/oidctest"
	"github.com/escher-sched/escher/types"
)

// loggedIn is a file with a context whose login expires in some time.
type loggedIn struct {
	t      *testing.T
	issuer *oidctest.Issuer
	config string
	at     time.Time
}

// logIn logs a user in, in a new file.
func logIn(t *testing.T, life time.Duration) *loggedIn {
	t.Helper()
	l := &loggedIn{t, oidctest.Start(t, time.Now), t.TempDir(), time.Now()}
	l.issuer.Set(func(s *oidctest.State) { s.Life = life })
	ask := oidc.Login{Issuer: l.issuer.URL, ClientID: oidctest.ClientID, Scopes: []string{"openid", "offline_access", "email", "groups"}}
	flow, err := oidc.NewFlow(t.Context(), ask, l.issuer.CA, l.now)
	if err != nil {
		t.Fatal(err)
	}
	code, err := flow.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	tokens, err := flow.Wait(t.Context(), code)
	if err != nil {
		t.Fatal(err)
	}
	l.change(func(f *File) {
		f.Contexts["lab"], f.Current = Context{Server: "https://escher.example.com", Token: tokens.Token, Login: NewLogin(ask.Issuer, ask.ClientID, l.issuer.CA, tokens)}, "lab"
		f.Contexts["other"] = Context{Dir: "/x"}
	})
	return l
}

func (l *loggedIn) now() time.Time { return l.at }

func (l *loggedIn) getenv(name string) string {
	if name == "XDG_CONFIG_HOME" {
		return l.config
	}
	return ""
}

// change changes the file.
func (l *loggedIn) change(do func(*File)) {
	l.t.Helper()
	err := Change(l.t.Context(), Path(l.getenv), func(f *File) error {
		do(f)
		return nil
	})
	if err != nil {
		l.t.Fatal(err)
	}
}

// place is the place before its token is renewed.
func (l *loggedIn) place() Place {
	l.t.Helper()
	p, err := Find(Given{}, l.getenv)
	if err != nil {
		l.t.Fatal(err)
	}
	return p
}

// fresh returns the place with a token.
func (l *loggedIn) fresh(p Place) (Place, error) { return p.Fresh(l.t.Context(), l.getenv, l.now) }

// TestFresh: a token is renewed before its end, once, whatever the number of processes, and the token of renewal
// is kept for the next time.
func TestFresh(t *testing.T) {
	t.Parallel() // it waits for the interval of the issuer
	l := logIn(t, time.Hour)
	first := l.place()
	if p, err := l.fresh(first); err != nil || p.Token != first.Token || l.issuer.Asked("/token") != 2 {
		t.Fatalf("%+v, %v", p, err)
	}
	l.at = l.at.Add(59*time.Minute + 30*time.Second)
	l.issuer.Now = l.now
	type result struct {
		token string
		err   error
	}
	done := make(chan result)
	for range 20 {
		go func() {
			p, err := l.fresh(first)
			done <- result{p.Token, err}
		}()
	}
	tokens := make(map[string]bool)
	for range 20 {
		r := <-done
		if tokens[r.token] = true; r.err != nil {
			t.Error(r.err)
		}
	}
	if len(tokens) != 1 || tokens[first.Token] || l.issuer.Asked("/token") != 3 {
		t.Errorf("20 at once renew the token %d times, into %d", l.issuer.Asked("/token")-2, len(tokens))
	}
	info, err := os.Stat(Path(l.getenv))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
	second := l.place()
	l.at = l.at.Add(2 * time.Hour)
	if p, err := l.fresh(second); err != nil || p.Token == second.Token {
		t.Errorf("the second time: %v", err)
	}
	f, err := Load(Path(l.getenv))
	if err != nil || f.Contexts["other"].Dir != "/x" || f.Current != "lab" {
		t.Errorf("%+v, %v", f, err)
	}
	if p, err := (Place{Token: "escher_a_b"}).Fresh(t.Context(), l.getenv, l.now); err != nil || p.Token != "escher_a_b" {
		t.Errorf("a token of the cluster: %+v, %v", p, err)
	}
}

// TestNotFresh: a token is used until its end, and after that the error says what to do, without secrets.
func TestNotFresh(t *testing.T) {
	t.Parallel()
	l := logIn(t, time.Minute)
	p := l.place()
	says := func(name string, class types.Class, parts ...string) {
		t.Helper()
		_, err := l.fresh(p)
		for _, part := range append(parts, "context lab: ") {
			if !types.Is(err, class) || !strings.Contains(fmt.Sprint(err), part) || strings.Contains(fmt.Sprint(err), p.Login.Renewal) {
				t.Errorf("%s: %v, want %q", name, err, part)
			}
		}
	}
	l.issuer.Set(func(s *oidctest.State) { s.Ended = true })
	if got, err := l.fresh(p); err != nil || got.Token != p.Token {
		t.Errorf("a token that is valid for now: %v", err)
	}
	l.at = l.at.Add(time.Hour)
	says("ended", types.Denied, "invalid_grant", "log in again with escher login https://escher.example.com --name lab")
	l.issuer.Set(func(s *oidctest.State) { s.Down = true })
	says("down", types.Unavailable, "ask the issuer")
	l.issuer.Set(func(s *oidctest.State) { *s = oidctest.State{} })
	l.change(func(f *File) { f.Contexts["lab"].Login.Renewal = "" })
	says("without a token of renewal", types.Denied, "the issuer gave none to renew it", "escher login https://escher.example.com --name lab")
	l.change(func(f *File) { f.Contexts["lab"] = Context{Server: "https://x", Token: "t"} })
	says("another login", types.Denied, "it has another login by now")

	unlock, err := lock(t.Context(), Path(l.getenv)+".lock")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := p.Fresh(ctx, l.getenv, l.now); err == nil {
		t.Error("an interrupted command gets the lock of another")
	}
	if err := unlock(); err != nil {
		t.Error(err)
	}
	if err := Change(t.Context(), "", nil); !types.Is(err, types.Precondition) {
		t.Error(err)
	}
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := Change(t.Context(), filepath.Join(file, "config.yaml"), nil); !types.Is(err, types.Precondition) || !strings.Contains(err.Error(), "writable") {
		t.Error(err)
	}
}
