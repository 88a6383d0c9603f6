package esl

import (
	"testing"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/types"
)

// TestNames reads names of other namespaces, and writes them.
func TestNames(t *testing.T) {
	s := &State{Namespace: "org"}
	for ref, want := range map[string]cluster.ID{
		"lab": {Namespace: "org", ID: "lab"}, "team:lab": {Namespace: "team", ID: "lab"}, "a.b:c": {Namespace: "a.b", ID: "c"},
	} {
		if got := s.At(ref); got != want || s.Ref(got) != ref {
			t.Errorf("%s is %v, which is %s", ref, got, s.Ref(got))
		}
	}
	if got := s.Ref(s.At("org:lab")); got != "lab" {
		t.Errorf("one of the own namespace is %s", got)
	}
	if OwnerOf("lab") != "lab" || OwnerOf("org:lab") != "org..lab" {
		t.Error(OwnerOf("lab"), OwnerOf("org:lab"))
	}
}

// TestReferring counts the jobs of namespaces whose settings allow that, for a policy that counts across
// namespaces, and its own jobs alone for another one.
func TestReferring(t *testing.T) {
	v := cluster.New()
	revision := int64(0)
	put := func(key string, m types.Message) {
		revision++
		if _, _, err := v.Apply(controlplane.Event{KV: controlplane.KV{Key: key, ModRevision: revision, Value: types.Encode(1, m)}}); err != nil {
			t.Fatal(err)
		}
	}
	for id, kind := range map[string]string{"wide": "wide", "near": "near"} {
		put(controlplane.PoliciesKey("org", id), &types.Policies{Policies: []types.Policy{{Kind: kind, With: "{}"}}})
		for _, job := range []cluster.ID{{Namespace: "org", ID: "own"}, {Namespace: "may", ID: "j"}, {Namespace: "not", ID: "j"}, {Namespace: "none", ID: "j"}} {
			name := "org:" + id
			if job.Namespace == "org" {
				name = id
			}
			use, err := Stored(Use{Name: name})
			if err != nil {
				t.Fatal(err)
			}
			put(controlplane.PoliciesKey(job.Namespace, job.ID+"-"+id), &types.Policies{Job: job.ID, Policies: []types.Policy{use}})
		}
	}
	put(controlplane.NamespaceKey("may"), &types.Namespace{Policies: []types.NamespacePolicy{{Name: "org:wide"}, {Name: "org:near", Required: true}}})
	put(controlplane.NamespaceKey("not"), &types.Namespace{Policies: []types.NamespacePolicy{{Name: "other:wide"}}})
	kinds := Kinds{}.With(func() Policy { return Use{} }, func() Policy { return wide{} }, func() Policy { return near{} })
	for id, want := range map[string][]string{"wide": {"own-wide", "may:j-wide"}, "near": {"own-near"}} {
		got := (&State{View: v, Namespace: "org", ID: id, Kinds: kinds}).Referring()
		for _, job := range want {
			if got[job] == nil {
				t.Errorf("%s: %s does not refer to it", id, job)
			}
		}
		if len(got) != len(want) {
			t.Errorf("%s: %d jobs refer to it: %v, want %v", id, len(got), got, want)
		}
	}
	c := &State{View: v, Namespace: "may", ID: "j-wide", Job: "j", Kinds: kinds}
	if p, s := c.SharedPolicy("org:wide"); p == nil || s.Namespace != "org" || s.ID != "wide" {
		t.Errorf("%+v of %+v", p, s)
	}
}

// wide counts jobs of other namespaces, and near does not.
type (
	wide struct{ near }
	near struct{}
)

func (near) Kind() string       { return "near" }
func (near) Apply(*Group) error { return nil }
func (wide) Kind() string       { return "wide" }
func (wide) AcrossNamespaces()  {}

// TestAcross refuses a policy of another namespace that does not count its jobs.
func TestAcross(t *testing.T) {
	for name, c := range map[string]struct {
		u  Use
		p  Policy
		ok bool
	}{
		"own":          {Use{Name: "lab"}, near{}, true},
		"own, in full": {Use{Name: "team:lab"}, near{}, true},
		"wide":         {Use{Name: "org:lab"}, wide{}, true},
		"near":         {Use{Name: "org:lab"}, near{}, false},
	} {
		if err := across(c.u, "team", c.p); (err == nil) != c.ok {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestRequired adds what a namespace requires, once.
func TestRequired(t *testing.T) {
	n := &types.Namespace{Policies: []types.NamespacePolicy{{Name: "org:a", Required: true}, {Name: "org:b"}, {Name: "org:c", Required: true}}}
	own := []Policy{near{}, Use{Name: "org:c", As: "team/alice"}}
	got := required(n, own)
	if len(got) != 3 || got[2] != (Use{Name: "org:a", Required: true}) || len(own) != 2 {
		t.Errorf("%v", got)
	}
	if again := required(n, got); len(again) != 3 {
		t.Errorf("again: %v", again)
	}
	claims := []Policy{Use{Name: "org:a", Required: true}, Use{Name: "org:b", Required: true}, Use{Name: "own", Required: true}}
	if got := required(n, claims); len(got) != 4 || got[0] != claims[0] || got[1] != (Use{Name: "org:b"}) || got[2] != (Use{Name: "own"}) || claims[1] == got[1] {
		t.Errorf("a use claims to be required: %v, of %v", got, claims)
	}
	if got := required(new(types.Namespace), nil); len(got) != 0 {
		t.Errorf("without settings: %v", got)
	}
	for with, want := range map[string]bool{`{"name":"org:a"}`: true, `{"name":"a"}`: false} {
		if got := Elsewhere(types.Policy{Kind: "use", With: with}); got != want {
			t.Errorf("%s is elsewhere: %v", with, got)
		}
	}
}
