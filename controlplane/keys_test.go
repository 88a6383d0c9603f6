package controlplane_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/writers"
	"github.com/escher-sched/escher/types"
)

// kinds lists every kind of key; TestEveryKindIsThere keeps it complete.
func kinds() []controlplane.Kind {
	var all []controlplane.Kind
	for _, a := range writers.Table() {
		all = append(all, a.Kind)
	}
	return all
}

// built returns a key of every form, made of the given parts, with its parsed form.
func built(node, ns, id, name string, attempt int) map[string]controlplane.Key {
	return map[string]controlplane.Key{
		controlplane.NodeKey(node):                            {Kind: controlplane.Nodes, Node: node},
		controlplane.DevicesKey(node):                         {Kind: controlplane.Devices, Node: node},
		controlplane.RightKey(name):                           {Kind: controlplane.Rights, ID: name},
		controlplane.CredentialKey(name):                      {Kind: controlplane.Credentials, ID: name},
		controlplane.TokenKey(node):                           {Kind: controlplane.Tokens, Node: node},
		controlplane.AliveKey(node):                           {Kind: controlplane.Alive, Node: node},
		controlplane.CordonKey(node):                          {Kind: controlplane.Cordons, Node: node},
		controlplane.NamespaceKey(ns):                         {Kind: controlplane.Namespaces, Namespace: ns},
		controlplane.NamespaceAdmissionKey(ns):                {Kind: controlplane.Admissions, Namespace: ns},
		controlplane.ResourceKey(ns, name, node):              {Kind: controlplane.Resources, Namespace: ns, Name: name, Where: node},
		controlplane.ResourceKey(ns, name, types.EveryNode):   {Kind: controlplane.Resources, Namespace: ns, Name: name, Where: "+"},
		controlplane.ResourceKey(ns, name, types.ClusterWide): {Kind: controlplane.Resources, Namespace: ns, Name: name, Where: "*"},
		controlplane.SessionKey(ns, id):                       {Kind: controlplane.Sessions, Namespace: ns, ID: id},
		controlplane.SpecKey(ns, id):                          {Kind: controlplane.Specs, Namespace: ns, ID: id},
		controlplane.TaskKey(ns, id):                          {Kind: controlplane.Tasks, Namespace: ns, ID: id},
		controlplane.JobKey(ns, id):                           {Kind: controlplane.Jobs, Namespace: ns, ID: id},
		controlplane.ReservationKey(ns, id):                   {Kind: controlplane.Reservations, Namespace: ns, ID: id},
		controlplane.PoliciesKey(ns, id):                      {Kind: controlplane.Policies, Namespace: ns, ID: id},
		controlplane.GrantKey(ns, id):                         {Kind: controlplane.Grants, Namespace: ns, ID: id},
		controlplane.AllocatedKey(node):                       {Kind: controlplane.Allocated, Node: node},
		controlplane.PoolKey(ns, name):                        {Kind: controlplane.Allocated, Namespace: ns, Name: name, Where: "*"},
		controlplane.BindingKey(node, ns, id, attempt):        {Kind: controlplane.Bindings, Node: node, Namespace: ns, ID: id, Attempt: attempt},
		controlplane.ReportKey(node, ns, id, attempt):         {Kind: controlplane.Reports, Node: node, Namespace: ns, ID: id, Attempt: attempt},
		controlplane.ProvidedKey(ns, name, node):              {Kind: controlplane.Provided, Namespace: ns, Name: name, Node: node},
		controlplane.StatusKey(ns, id):                        {Kind: controlplane.Statuses, Namespace: ns, ID: id},
		controlplane.HistoryKey(ns, name):                     {Kind: controlplane.Histories, Namespace: ns, ID: name},
		controlplane.SecretKey(ns, name):                      {Kind: controlplane.Secrets, Namespace: ns, ID: name},
		controlplane.SchedulerKey(id):                         {Kind: controlplane.Schedulers, ID: id},
		controlplane.LeaderKey(id):                            {Kind: controlplane.Leaders, ID: id},
		controlplane.AdmissionKey():                           {Kind: controlplane.System, ID: "admission"},
		controlplane.ClusterKey():                             {Kind: controlplane.System, ID: "cluster"},
		controlplane.EpochKey():                               {Kind: controlplane.System, ID: "epoch"},
		controlplane.ProgressKey():                            {Kind: controlplane.System, ID: "progress"},
	}
}

func TestKeysReadWell(t *testing.T) {
	for got, want := range map[string]string{
		controlplane.NodeKey("n1"):                            "/escher/nodes/n1",
		controlplane.ResourceKey("team", "x", "*"):            "/escher/resources/team/x/*",
		controlplane.PoolKey("team", "x"):                     "/escher/allocated/*/team/x",
		controlplane.BindingKey("n1", "team", "web-1", 2):     "/escher/bindings/n1/team/web-1/2",
		controlplane.ProvidedKey("team", "x", "n1"):           "/escher/provided/team/x/n1",
		controlplane.StatusKey("team", "web-1"):               "/escher/status/team/web-1",
		controlplane.AdmissionKey():                           "/escher/system/admission",
		controlplane.ClusterKey():                             "/escher/system/cluster",
		controlplane.Prefix(controlplane.Tasks):               "/escher/tasks/",
		controlplane.Prefix(controlplane.Tasks, "team"):       "/escher/tasks/team/",
		controlplane.Prefix(controlplane.Resources, "a", "b"): "/escher/resources/a/b/",
	} {
		if got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

func TestEveryKindIsThere(t *testing.T) {
	seen := make(map[controlplane.Kind]bool)
	for key, want := range built("n1", "team", "id", "x", 3) {
		got, ok := controlplane.Parse(key)
		if !ok || got != want {
			t.Errorf("%s: got %+v, %v, want %+v", key, got, ok, want)
		}
		if got.String() != key {
			t.Errorf("%s is written back as %s", key, got)
		}
		if !strings.HasPrefix(key, controlplane.Prefix(got.Kind)) {
			t.Errorf("%s is not below %s", key, controlplane.Prefix(got.Kind))
		}
		seen[got.Kind] = true
	}
	for _, kind := range kinds() {
		if !seen[kind] {
			t.Errorf("no key of kind %s is built", kind)
		}
	}
}

func TestWritersTableHasEveryKindOnce(t *testing.T) {
	seen := make(map[controlplane.Kind]int)
	known := []writers.Writer{writers.Agent, writers.Application, writers.Scheduler, writers.Server, writers.Administrator}
	for _, a := range writers.Table() {
		seen[a.Kind]++
		if len(a.Put) == 0 || len(a.Delete) == 0 {
			t.Errorf("%s: no writer may put (%v) or delete (%v) it", a.Kind, a.Put, a.Delete)
		}
		for _, w := range slices.Concat(a.Put, a.Delete) {
			if !slices.Contains(known, w) {
				t.Errorf("%s: unknown writer %q", a.Kind, w)
			}
		}
	}
	for _, k := range built("n1", "team", "id", "x", 3) {
		if seen[k.Kind] != 1 {
			t.Errorf("%s is there %d times", k.Kind, seen[k.Kind])
		}
	}
	if len(seen) != 27 {
		t.Errorf("there are %d kinds, and 27 in docs/keyspace.md", len(seen))
	}
}

func TestParseRefuses(t *testing.T) {
	for _, key := range []string{
		"", "/", "/escher", "/escher/", "/escher/nodes", "/escher/nodes/", "/escher/nodes/n1/", "/escher/nodes/n1/x", "/escher/nodes//n1",
		"escher/nodes/n1", "/other/nodes/n1", "/escher/unknown/x", "/escher/tasks/team", "/escher/tasks//id", "/escher/tasks/team/id/x",
		"/escher/resources/team/x", "/escher/resources/team/x/n1/y", "/escher/allocated/*/team", "/escher/allocated/n1/team/x", "/escher/allocated/*/team/x/y",
		"/escher/bindings/n1/team/id", "/escher/bindings/n1/team/id/0", "/escher/bindings/n1/team/id/-1", "/escher/bindings/n1/team/id/01",
		"/escher/bindings/n1/team/id/+1", "/escher/bindings/n1/team/id/x", "/escher/bindings/n1/team/id/1/2", "/escher/bindings/n1/team/id/99999999999999999999",
	} {
		if k, ok := controlplane.Parse(key); ok {
			t.Errorf("%q is %+v", key, k)
		}
	}
}

// FuzzKeys checks that keys built of valid names parse to these names.
func FuzzKeys(f *testing.F) {
	f.Add("n1", "team", "web-1", "x", 1)
	f.Add("a.b", "A_b", "0", "z-z", 1<<30)
	f.Fuzz(func(t *testing.T, node, ns, id, name string, attempt int) {
		for _, part := range []string{node, ns, id, name} {
			if types.ValidateName("part", part) != nil {
				return
			}
		}
		if attempt <= 0 {
			return
		}
		for key, want := range built(node, ns, id, name, attempt) {
			if got, ok := controlplane.Parse(key); !ok || got != want || got.String() != key {
				t.Fatalf("%s: got %+v, %v, want %+v; it is written back as %s", key, got, ok, want, got)
			}
		}
	})
}

// FuzzParse checks that every parsed key is written back unchanged.
func FuzzParse(f *testing.F) {
	for key := range built("n1", "team", "id", "x", 3) {
		f.Add(key)
	}
	f.Fuzz(func(t *testing.T, key string) {
		if k, ok := controlplane.Parse(key); ok && k.String() != key {
			t.Fatalf("%q is %+v, and written back as %q", key, k, k)
		}
	})
}
