package access

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/memstore"
	"github.com/escher-sched/escher/types"
	"github.com/escher-sched/escher/types/rights"
)

// world is an authority with its store, in virtual time.
type world struct {
	t     *testing.T
	store *memstore.Store
	*Authority
	Manager
}

// inWorld runs a test with an authority that runs.
func inWorld(t *testing.T, test func(w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New()
		w := &world{t, store, New(store, time.Now, zap.NewNop()), Manager{Store: store, Now: time.Now}}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- w.Run(ctx) }()
		synctest.Wait()
		test(w)
		cancel()
		if err := <-ended; err != context.Canceled {
			t.Error(err)
		}
	})
}

// root is a caller with every right.
func root() Caller { return From(context.Background()) }

// as returns the caller with an identity.
func (w *world) as(id Identity) Caller {
	return w.caller(id)
}

// bearer returns the caller with a new token of a subject.
func (w *world) bearer(c types.Credential, life time.Duration) (Caller, string) {
	w.t.Helper()
	id, token, err := w.MakeToken(w.t.Context(), root(), c, life)
	if err != nil {
		w.t.Fatal(err)
	}
	synctest.Wait()
	who, err := w.Identify(w.t.Context(), token)
	if err != nil || who.Token != id || who.Subject != c.Subject {
		w.t.Fatalf("%+v, %v", who, err)
	}
	return w.as(who), token
}

// grant gives a right, as root.
func (w *world) grant(name string, r types.Right) {
	w.t.Helper()
	if err := w.Grant(w.t.Context(), root(), name, r); err != nil {
		w.t.Fatal(err)
	}
	synctest.Wait()
}

func need(text string) rights.Need {
	n, err := rights.ParseNeed(text)
	if err != nil {
		panic(err)
	}
	return n
}

// TestMay is the table of decisions: each identity, what it asks for, and where it is allowed.
func TestMay(t *testing.T) {
	inWorld(t, func(w *world) {
		w.grant("lab", types.Right{Subjects: []string{"user:alice", "group:ml"}, Role: rights.Member, Namespaces: []string{"lab"}})
		w.grant("all", types.Right{Subjects: []string{"service:monitor"}, Allow: []string{"read tasks", "read audit"}, Namespaces: []string{"*"}})
		w.grant("ops", types.Right{Subjects: []string{"user:olga"}, Role: rights.Operator, Namespaces: []string{"*"}})
		w.grant("wide", types.Right{Subjects: []string{"user:wanda"}, Role: rights.Operator, Namespaces: []string{"lab"}})
		alice, bob := Identity{Subject: "user:alice"}, Identity{Subject: "user:bob"}
		for _, c := range []struct {
			id   Identity
			need string
			// where lists the namespaces of lab, web and the cluster, which is empty.
			where string
		}{
			{alice, "write tasks", "lab"},
			{alice, "read tasks", "lab"},
			{alice, "enter tasks", "lab"},
			{alice, "write namespaces", "-"},
			{alice, "read nodes", "lab,web,"},
			{alice, "write nodes", "-"},
			{bob, "read tasks", "-"},
			{bob, "read nodes", "-"},
			{Identity{Subject: "user:bob", Groups: []string{"web", "ml"}}, "write jobs", "lab"},
			{Identity{Subject: "service:ml"}, "write jobs", "-"},
			{Identity{Subject: "group:ml"}, "write jobs", "lab"}, // no credential has such a subject
			{Identity{Subject: "service:monitor"}, "read tasks", "lab,web,"},
			{Identity{Subject: "service:monitor"}, "read audit", "lab,web,"},
			{Identity{Subject: "service:monitor"}, "write tasks", "-"},
			{Identity{Subject: "user:olga"}, "write nodes", "lab,web,"},
			{Identity{Subject: "user:olga"}, "write rights", "-"},
			{Identity{Subject: "user:olga", Role: rights.Viewer}, "write nodes", "-"},
			{Identity{Subject: "user:olga", Namespaces: []string{"web"}}, "write tasks", "web"},
			{Identity{Subject: "user:alice", Namespaces: []string{"web"}}, "write tasks", "-"},
			{Identity{Subject: "user:alice", Role: rights.Administrator}, "write namespaces", "-"},
			{Identity{Subject: "user:wanda"}, "write nodes", "lab"}, // and no operation asks that of a namespace
			{Root("root"), "write tokens", "lab,web,"},
			{Identity{}, "read nodes", "-"},
		} {
			for _, ns := range []string{"lab", "web", ""} {
				err := w.May(c.id, need(c.need), ns)
				want := c.where != "-" && slices.Contains(strings.Split(c.where, ","), ns)
				if (err == nil) != want || err != nil && (!types.Is(err, types.Denied) || !strings.Contains(err.Error(), "has no right to "+c.need)) {
					t.Errorf("%+v: %s in %q: %v, want %t", c.id, c.need, ns, err, want)
				}
			}
		}
	})
}

// TestTokens checks which tokens are refused: each with why.
func TestTokens(t *testing.T) {
	inWorld(t, func(w *world) {
		alice, token := w.bearer(types.Credential{Subject: "user:alice"}, time.Hour)
		other, _ := w.bearer(types.Credential{Subject: "user:bob"}, time.Hour)
		for _, wrong := range []string{
			"", "x", "escher_", "escher__", "escher_" + alice.Token, "escher_" + alice.Token + "_", token + "x", token[:len(token)-1], strings.ToLower(token),
			strings.Replace(token, alice.Token, other.Token, 1), strings.TrimPrefix(token, "escher_"), strings.Replace(token, alice.Token, "none", 1), token + "\n",
		} {
			if id, err := w.Identify(t.Context(), wrong); !types.Is(err, types.Denied) || id.Subject != "" {
				t.Errorf("%q: %+v, %v", wrong, id, err)
			}
		}
		time.Sleep(time.Hour - time.Nanosecond)
		if _, err := w.Identify(t.Context(), token); err != nil {
			t.Errorf("in its last moment: %v", err)
		}
		time.Sleep(time.Nanosecond)
		if _, err := w.Identify(t.Context(), token); !types.Is(err, types.Denied) || !strings.Contains(err.Error(), "expired at") {
			t.Errorf("after its end: %v", err)
		}
		carol, token := w.bearer(types.Credential{Subject: "user:carol"}, 0)
		if err := w.RevokeToken(w.t.Context(), root(), carol.Token); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if _, err := w.Identify(t.Context(), token); !types.Is(err, types.Denied) || !strings.Contains(err.Error(), "revoked") {
			t.Errorf("after it was revoked: %v", err)
		}
	})
}

// TestUnknownYet refuses tokens until the credentials are known, as unavailable: the caller tries again.
func TestUnknownYet(t *testing.T) {
	a := New(memstore.New(), time.Now, zap.NewNop())
	if _, err := a.Identify(t.Context(), "escher_a_b"); !types.Is(err, types.Unavailable) {
		t.Error(err)
	}
}

// TestHeld ends an open request when its token is revoked or expires, or its right goes, and no other.
func TestHeld(t *testing.T) {
	inWorld(t, func(w *world) {
		w.grant("lab", types.Right{Subjects: []string{"user:alice", "user:bob"}, Role: rights.Member, Namespaces: []string{"lab"}})
		hold := func(c Caller) context.Context {
			ctx, _, err := w.Hold(w.t.Context(), c.Identity, []rights.Need{need("read tasks")}, "lab")
			if err != nil {
				t.Fatal(err)
			}
			if From(ctx).Subject != c.Subject || From(ctx).May(need("write jobs"), "lab") != nil || From(ctx).May(need("write jobs"), "web") == nil {
				t.Errorf("the request is by %+v", From(ctx))
			}
			return ctx
		}
		alice, _ := w.bearer(types.Credential{Subject: "user:alice"}, time.Hour)
		brief, _ := w.bearer(types.Credential{Subject: "user:alice"}, time.Minute)
		bob, _ := w.bearer(types.Credential{Subject: "user:bob"}, time.Hour)
		first, second, third := hold(alice), hold(brief), hold(bob)
		time.Sleep(time.Minute)
		synctest.Wait()
		if first.Err() != nil || second.Err() == nil || third.Err() != nil {
			t.Errorf("after a minute: %v, %v, %v", first.Err(), second.Err(), third.Err())
		}
		if err := w.RevokeToken(w.t.Context(), root(), alice.Token); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if !types.Is(context.Cause(first), types.Denied) || third.Err() != nil {
			t.Errorf("after the revocation: %v, %v", context.Cause(first), third.Err())
		}
		w.grant("lab", types.Right{Subjects: []string{"user:alice"}, Role: rights.Member, Namespaces: []string{"lab"}})
		if !types.Is(context.Cause(third), types.Denied) {
			t.Errorf("after the right is gone: %v", context.Cause(third))
		}
		if _, _, err := w.Hold(w.t.Context(), bob.Identity, []rights.Need{need("read tasks")}, "lab"); !types.Is(err, types.Denied) {
			t.Errorf("a new request without a right: %v", err)
		}
	})
}

// TestEnded forgets requests that have ended.
func TestEnded(t *testing.T) {
	inWorld(t, func(w *world) {
		ctx, end, err := w.Hold(w.t.Context(), Root("root"), nil, "")
		if err != nil {
			t.Fatal(err)
		}
		end()
		if len(w.held) != 0 || ctx.Err() == nil {
			t.Errorf("%d are held, %v", len(w.held), ctx.Err())
		}
	})
}

// TestNoEscalation checks that a caller gives and takes no more than it has.
func TestNoEscalation(t *testing.T) {
	inWorld(t, func(w *world) {
		ctx := w.t.Context()
		w.grant("lab-admins", types.Right{Subjects: []string{"user:ada"}, Role: rights.Administrator, Namespaces: []string{"lab"}})
		w.grant("givers", types.Right{Subjects: []string{"user:gil"}, Role: rights.Viewer, Allow: []string{"write rights"}, Namespaces: []string{"lab"}})
		w.grant("admins", types.Right{Subjects: []string{"user:root2"}, Role: rights.Administrator, Namespaces: []string{"*"}})
		ada, _ := w.bearer(types.Credential{Subject: "user:ada"}, time.Hour)
		gil, _ := w.bearer(types.Credential{Subject: "user:gil"}, time.Hour)
		narrow, _ := w.bearer(types.Credential{Subject: "user:root2", Groups: []string{"ml"}, Role: rights.Member, Namespaces: []string{"lab"}}, time.Hour)
		admin, _ := w.bearer(types.Credential{Subject: "user:root2"}, time.Hour)
		to := func(role rights.Role, ns ...string) types.Right {
			return types.Right{Subjects: []string{"user:eve"}, Role: role, Namespaces: ns}
		}
		for what, c := range map[string]struct {
			err  error
			want bool
		}{
			"a member by the administrator of the namespace": {w.Grant(ctx, ada, "r1", to(rights.Member, "lab")), true},
			"an administrator of the same namespace":         {w.Grant(ctx, ada, "r2", to(rights.Administrator, "lab")), true},
			"another namespace":                              {w.Grant(ctx, ada, "r3", to(rights.Viewer, "web")), false},
			"also another namespace":                         {w.Grant(ctx, ada, "r4", to(rights.Viewer, "lab", "web")), false},
			"the cluster":                                    {w.Grant(ctx, ada, "r5", to(rights.Viewer, "*")), false},
			"in place of a wider right":                      {w.Grant(ctx, ada, "admins", to(rights.Viewer, "lab")), false},
			"a viewer by one who may give and view":          {w.Grant(ctx, gil, "r6", to(rights.Viewer, "lab")), true},
			"more than the giver has":                        {w.Grant(ctx, gil, "r7", to(rights.Member, "lab")), false},
			"a part that the giver lacks":                    {w.Grant(ctx, gil, "r8", types.Right{Subjects: []string{"user:gil"}, Allow: []string{"write tokens"}, Namespaces: []string{"lab"}}), false},
			"by a token bound to a role":                     {w.Grant(ctx, narrow, "r9", to(rights.Viewer, "lab")), false},
			"the cluster by an administrator":                {w.Grant(ctx, admin, "r10", to(rights.Administrator, "*")), true},
			"removal of a wider right":                       {w.Revoke(ctx, ada, "admins"), false},
			"removal of an own right":                        {w.Revoke(ctx, ada, "r1"), true},
		} {
			if (c.err == nil) != c.want || c.err != nil && !types.Is(c.err, types.Denied) && !types.Is(c.err, types.NotFound) {
				t.Errorf("%s: %v, want %t", what, c.err, c.want)
			}
		}
		if all, _, err := w.Rights(ctx, gil); err != nil || len(all) != 1 {
			t.Errorf("gil sees %d rights, %v", len(all), err)
		}
		if all, _, err := w.Rights(ctx, ada); err != nil || len(all) != 4 {
			t.Errorf("ada sees %d rights of its namespace, %v", len(all), err)
		}
	})
}

// TestNoWiderToken checks which tokens a caller may make.
func TestNoWiderToken(t *testing.T) {
	inWorld(t, func(w *world) {
		ctx := w.t.Context()
		w.grant("admins", types.Right{Subjects: []string{"user:root2"}, Role: rights.Administrator, Namespaces: []string{"*"}})
		ada, _ := w.bearer(types.Credential{Subject: "user:ada"}, time.Hour)
		gil, _ := w.bearer(types.Credential{Subject: "user:gil"}, time.Hour)
		narrow, _ := w.bearer(types.Credential{Subject: "user:root2", Groups: []string{"ml"}, Role: rights.Member, Namespaces: []string{"lab"}}, time.Hour)
		admin, _ := w.bearer(types.Credential{Subject: "user:root2"}, time.Hour)
		token := func(by Caller, c types.Credential, life time.Duration) error {
			_, _, err := w.MakeToken(ctx, by, c, life)
			return err
		}
		for what, c := range map[string]struct {
			err  error
			want bool
		}{
			"one's own":                      {token(ada, types.Credential{Subject: "user:ada"}, time.Minute), true},
			"of another subject":             {token(ada, types.Credential{Subject: "user:root2", Namespaces: []string{"lab"}}, time.Minute), false},
			"with a group":                   {token(ada, types.Credential{Subject: "user:ada", Groups: []string{"ml"}}, time.Minute), false},
			"with an own group":              {token(narrow, types.Credential{Subject: "user:root2", Groups: []string{"ml"}, Role: rights.Viewer, Namespaces: []string{"lab"}}, time.Minute), true},
			"without the bound of the role":  {token(narrow, types.Credential{Subject: "user:root2", Namespaces: []string{"lab"}}, time.Minute), false},
			"with a higher role":             {token(narrow, types.Credential{Subject: "user:root2", Role: rights.Operator, Namespaces: []string{"lab"}}, time.Minute), false},
			"without the bound of the place": {token(narrow, types.Credential{Subject: "user:root2", Role: rights.Viewer}, time.Minute), false},
			"for everywhere":                 {token(narrow, types.Credential{Subject: "user:root2", Role: rights.Viewer, Namespaces: []string{"*"}}, time.Minute), false},
			"of another by an administrator": {token(admin, types.Credential{Subject: "service:ci", Groups: []string{"x"}}, 1000*time.Hour), true},
		} {
			if (c.err == nil) != c.want || c.err != nil && !types.Is(c.err, types.Denied) {
				t.Errorf("a token %s: %v, want %t", what, c.err, c.want)
			}
		}
		// A token that a bearer makes for itself ends with the one that it has.
		id, _, err := w.MakeToken(ctx, ada, types.Credential{Subject: "user:ada"}, 1000*time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		own, _, err := w.Tokens(ctx, ada)
		if err != nil || len(own) != 3 {
			t.Fatalf("ada sees %d tokens, %v", len(own), err)
		}
		for _, x := range own {
			if x.Name == id && x.Value.Expires != ada.Expires.UnixNano() {
				t.Errorf("it expires at %s, that of its maker at %s", time.Unix(0, x.Value.Expires), ada.Expires)
			}
		}
		if err := w.RevokeToken(ctx, ada, gil.Token); !types.Is(err, types.Denied) {
			t.Errorf("the token of another is revoked: %v", err)
		}
	})
}

// TestWrong refuses what can never be accepted, with the field, before anything is written.
func TestWrong(t *testing.T) {
	inWorld(t, func(w *world) {
		ctx, before := w.t.Context(), w.keys()
		right := types.Right{Subjects: []string{"user:a"}, Role: rights.Member, Namespaces: []string{"lab"}}
		for says, err := range map[string]error{
			"name: ":             w.Grant(ctx, root(), "a b", right),
			"subjects[0]: ":      w.Grant(ctx, root(), "r", types.Right{Subjects: []string{"a"}, Role: rights.Member, Namespaces: []string{"lab"}}),
			"right r: it gives ": w.Grant(ctx, root(), "r", types.Right{Role: rights.Member, Namespaces: []string{"lab"}}),
			"right q: it gives ": w.Grant(ctx, root(), "q", types.Right{Subjects: []string{"user:a"}, Namespaces: []string{"lab"}}),
		} {
			if !types.Is(err, types.Invalid) || !strings.HasPrefix(err.Error(), says) {
				t.Errorf("%s: %v", says, err)
			}
		}
		for says, c := range map[string]struct {
			c    types.Credential
			life time.Duration
		}{
			"subject: ": {types.Credential{Subject: "group:ml"}, 0},
			"life: -1s": {types.Credential{Subject: "user:a"}, -time.Second},
			"life: ":    {types.Credential{Subject: "user:a"}, MaxLife + 1},
			"note: ":    {types.Credential{Subject: "user:a", Note: strings.Repeat("x", 300)}, 0},
		} {
			if _, _, err := w.MakeToken(ctx, root(), c.c, c.life); !types.Is(err, types.Invalid) || !strings.HasPrefix(err.Error(), says) {
				t.Errorf("%s: %v", says, err)
			}
		}
		if err := w.RevokeToken(ctx, root(), "none"); !types.Is(err, types.NotFound) {
			t.Error(err)
		}
		if err := w.Revoke(ctx, root(), "none"); !types.Is(err, types.NotFound) {
			t.Error(err)
		}
		if after := w.keys(); after != before {
			t.Errorf("of %d keys there are %d", before, after)
		}
	})
}

// keys returns the number of keys.
func (w *world) keys() int {
	w.t.Helper()
	kvs, _, err := controlplane.ListAll(w.t.Context(), w.store, controlplane.ListOptions{Prefix: controlplane.Root, KeysOnly: true})
	if err != nil {
		w.t.Fatal(err)
	}
	return len(kvs)
}

// TestJunk gives nothing by a value that no reader takes.
func TestJunk(t *testing.T) {
	inWorld(t, func(w *world) {
		_, token := w.bearer(types.Credential{Subject: "user:alice"}, time.Hour)
		w.grant("lab", types.Right{Subjects: []string{"user:alice"}, Role: rights.Member, Namespaces: []string{"lab"}})
		for _, key := range []string{controlplane.RightKey("lab"), controlplane.CredentialKey(strings.Split(token, "_")[1])} {
			if _, err := w.store.Commit(w.t.Context(), controlplane.Txn{Ops: []controlplane.Op{{Key: key, Value: []byte("junk")}}}); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		if _, err := w.Identify(t.Context(), token); !types.Is(err, types.Denied) {
			t.Error(err)
		}
		if err := w.May(Identity{Subject: "user:alice"}, need("read tasks"), "lab"); !types.Is(err, types.Denied) {
			t.Error(err)
		}
	})
}

// TestTokensAreBounded refuses a subject its 101st token, but not an administrator, and forgets tokens a
// week after their end.
func TestTokensAreBounded(t *testing.T) {
	inWorld(t, func(w *world) {
		alice, _ := w.bearer(types.Credential{Subject: "user:alice"}, time.Hour)
		for i := 1; i < maxOwn; i++ {
			if _, _, err := w.MakeToken(w.t.Context(), alice, types.Credential{Subject: "user:alice"}, time.Hour); err != nil {
				t.Fatalf("token %d: %v", i, err)
			}
		}
		if _, _, err := w.MakeToken(w.t.Context(), alice, types.Credential{Subject: "user:alice"}, time.Hour); !types.Is(err, types.Precondition) || !strings.Contains(err.Error(), "user:alice has 100") {
			t.Errorf("one more: %v", err)
		}
		if _, _, err := w.MakeToken(w.t.Context(), root(), types.Credential{Subject: "user:alice"}, time.Hour); err != nil {
			t.Errorf("one more, by an administrator: %v", err)
		}
		time.Sleep(time.Hour + forgotten)
		w.bearer(types.Credential{Subject: "user:bob"}, time.Hour)
		if n := w.keys(); n != maxOwn+2 {
			t.Errorf("in their last moment %d keys are left", n)
		}
		time.Sleep(time.Nanosecond)
		w.bearer(types.Credential{Subject: "user:bob"}, time.Hour)
		w.bearer(types.Credential{Subject: "user:bob"}, time.Hour)
		if n := w.keys(); n != 3 {
			t.Errorf("a week after their end %d keys are left, want those of bob", n)
		}
	})
}

// TestRevokedWithItsParent ends the tokens that a bearer has made for itself with the one that it has.
func TestRevokedWithItsParent(t *testing.T) {
	inWorld(t, func(w *world) {
		leaked, _ := w.bearer(types.Credential{Subject: "user:alice"}, time.Hour)
		child := w.child(leaked, types.Credential{Subject: "user:alice"})
		grandchild := w.child(child, types.Credential{Subject: "user:alice"})
		other, _ := w.bearer(types.Credential{Subject: "user:alice"}, time.Hour)
		ctx, _, err := w.Hold(w.t.Context(), grandchild.Identity, nil, "")
		if err != nil {
			t.Fatal(err)
		}
		if err := w.RevokeToken(w.t.Context(), root(), leaked.Token); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if !types.Is(context.Cause(ctx), types.Denied) {
			t.Errorf("the open request of a grandchild: %v", context.Cause(ctx))
		}
		for name, c := range map[string]Caller{"child": child, "grandchild": grandchild} {
			if _, _, err := w.Hold(w.t.Context(), c.Identity, nil, ""); !types.Is(err, types.Denied) {
				t.Errorf("the %s: %v", name, err)
			}
		}
		if _, _, err := w.Hold(w.t.Context(), other.Identity, nil, ""); err != nil {
			t.Errorf("another token of the subject: %v", err)
		}
	})
}

// child returns the caller with a token that a bearer makes for itself.
func (w *world) child(by Caller, c types.Credential) Caller {
	w.t.Helper()
	_, token, err := w.MakeToken(w.t.Context(), by, c, time.Hour)
	if err != nil {
		w.t.Fatal(err)
	}
	synctest.Wait()
	id, err := w.Identify(w.t.Context(), token)
	if err != nil {
		w.t.Fatal(err)
	}
	return w.as(id)
}

// TestBoundedToken lets a token with bounds see and revoke itself and its children, and no other token of
// its subject.
func TestBoundedToken(t *testing.T) {
	inWorld(t, func(w *world) {
		wide, _ := w.bearer(types.Credential{Subject: "user:alice"}, time.Hour)
		narrow, _ := w.bearer(types.Credential{Subject: "user:alice", Role: rights.Viewer, Namespaces: []string{"lab"}}, time.Hour)
		child := w.child(narrow, types.Credential{Subject: "user:alice", Role: rights.Viewer, Namespaces: []string{"lab"}})
		for c, want := range map[*Caller]int{&wide: 3, &narrow: 2, &child: 1} {
			if own, _, err := w.Tokens(w.t.Context(), *c); err != nil || len(own) != want {
				t.Errorf("token %s sees %d, %v, want %d", c.Token, len(own), err, want)
			}
		}
		if err := w.RevokeToken(w.t.Context(), narrow, wide.Token); !types.Is(err, types.Denied) {
			t.Errorf("it revokes a wider one: %v", err)
		}
		if err := w.RevokeToken(w.t.Context(), narrow, child.Token); err != nil {
			t.Errorf("it revokes its child: %v", err)
		}
		if err := w.RevokeToken(w.t.Context(), wide, narrow.Token); err != nil {
			t.Errorf("the wider one revokes it: %v", err)
		}
	})
}
