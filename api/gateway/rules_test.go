package gateway

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/escher-sched/escher/api/access"
	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/writers"
	"github.com/escher-sched/escher/types"
	"github.com/escher-sched/escher/types/rights"
)

// holding returns a user with needs in namespaces; "" means the cluster with all namespaces.
func holding(subject string, has map[string][]rights.Need) user {
	may := func(n rights.Need, ns string) bool {
		return slices.Contains(has[""], n) || ns != "" && slices.Contains(has[ns], n) ||
			n.Open() && slices.ContainsFunc(slices.Collect(maps.Values(has)), func(all []rights.Need) bool { return slices.Contains(all, n) })
	}
	u := user{reading: access.Readable(), writing: writable(), table: make(map[controlplane.Kind]writers.Access)}
	for _, a := range writers.Table() {
		u.table[a.Kind] = a
	}
	u.Caller = access.Caller{
		Identity: access.Identity{Subject: subject},
		May: func(n rights.Need, ns string) error {
			if may(n, ns) {
				return nil
			}
			return types.Errorf(types.Denied, "%s: has no right to %s in %q", subject, n, ns)
		},
		Somewhere: func(n rights.Need) bool {
			return slices.ContainsFunc(slices.Collect(maps.Keys(has)), func(ns string) bool { return may(n, ns) })
		},
	}
	return u
}

// of returns the needs of a role, and others.
func of(r rights.Role, others ...rights.Need) []rights.Need {
	for _, k := range rights.Kinds() {
		for _, v := range rights.Verbs() {
			if n := (rights.Need{Verb: v, Kind: k}); r.Allows(n) {
				others = append(others, n)
			}
		}
	}
	return others
}

// users returns a user of each sort. Tasks of namespace a are bound to node n1.
func users() map[string]user {
	agent := holding("node:n1", nil)
	agent.node = "n1"
	agent.bound = func(_ context.Context, node, ns string) (bool, error) { return node == "n1" && ns == "a", nil }
	all := map[string]user{
		"viewer of a":   holding("user:v", map[string][]rights.Need{"a": of(rights.Viewer)}),
		"member of a":   holding("user:m", map[string][]rights.Need{"a": of(rights.Member)}),
		"member of all": holding("user:mm", map[string][]rights.Need{"": of(rights.Member)}),
		"operator":      holding("user:o", map[string][]rights.Need{"": of(rights.Operator)}),
		"administrator": holding("user:root", map[string][]rights.Need{"": of(rights.Administrator)}),
		"admin of a":    holding("user:a", map[string][]rights.Need{"a": of(rights.Administrator)}),
		"scheduler":     holding("service:s", map[string][]rights.Need{"": of(rights.Viewer, rights.Need{Verb: rights.Write, Kind: rights.Bindings}, rights.Need{Verb: rights.Read, Kind: rights.Bindings})}),
		"agent of n1":   agent,
		"nobody":        holding("user:n", nil),
	}
	for name, u := range all {
		u.namedBy = func(_ context.Context, policy string) ([]string, error) {
			return map[string][]string{"b:named": {"c", "a"}, "b:elsewhere": {"c"}}[policy], nil
		}
		all[name] = u
	}
	return all
}

// everyone lists them.
func everyone() []string { return slices.Sorted(maps.Keys(users())) }

// but lists all but some.
func but(others ...string) []string {
	return slices.DeleteFunc(everyone(), func(name string) bool { return slices.Contains(others, name) })
}

// keyRights has the users that may read, put and delete each key. Namespaces are a, of some users, and b;
// nodes are n1, whose agent is one, and n2.
func keyRights() map[string][3][]string {
	var (
		all        = but("nobody")
		inA        = []string{"admin of a", "administrator", "agent of n1", "member of a", "member of all", "operator", "scheduler", "viewer of a"}
		everywhere = []string{"administrator", "member of all", "operator", "scheduler"}
		writeA     = []string{"admin of a", "administrator", "agent of n1", "member of a", "member of all", "operator"}
		writeB     = []string{"administrator", "member of all", "operator"}
		nodes      = []string{"administrator", "operator"}
		schedulers = []string{"administrator", "scheduler"}
		agent      = []string{"agent of n1"}
		administer = []string{"administrator"}
		none       []string
	)
	with := func(names []string, others ...string) []string {
		return slices.Sorted(slices.Values(append(others, names...)))
	}
	return map[string][3][]string{
		controlplane.NodeKey("n1"):                  {all, with(nodes, agent...), nodes},
		controlplane.NodeKey("n2"):                  {all, nodes, nodes},
		controlplane.DevicesKey("n1"):               {all, agent, nodes},
		controlplane.DevicesKey("n2"):               {all, none, nodes},
		controlplane.AliveKey("n1"):                 {all, agent, agent},
		controlplane.AliveKey("n2"):                 {all, none, none},
		controlplane.TokenKey("n1"):                 {agent, agent, agent},
		controlplane.TokenKey("n2"):                 {none, none, none},
		controlplane.CordonKey("n1"):                {all, nodes, nodes},
		controlplane.NamespaceKey("a"):              {inA, administer, administer},
		controlplane.NamespaceKey("b"):              {everywhere, administer, administer},
		controlplane.NamespaceAdmissionKey("a"):     {inA, none, none},
		controlplane.NamespaceAdmissionKey("b"):     {everywhere, none, none},
		controlplane.ResourceKey("a", "x", "n1"):    {inA, writeA, writeA},
		controlplane.ResourceKey("b", "x", "*"):     {everywhere, writeB, writeB},
		controlplane.SessionKey("a", "s"):           {inA, writeA, writeA},
		controlplane.SessionKey("b", "s"):           {everywhere, writeB, writeB},
		controlplane.SpecKey("a", digest()):         {inA, writeA, none},
		controlplane.SpecKey("b", digest()):         {everywhere, writeB, none},
		controlplane.TaskKey("a", "t"):              {inA, writeA, writeA},
		controlplane.TaskKey("b", "t"):              {everywhere, writeB, writeB},
		controlplane.JobKey("a", "j"):               {inA, writeA, writeA},
		controlplane.JobKey("b", "j"):               {everywhere, writeB, writeB},
		controlplane.ReservationKey("a", "r"):       {inA, writeA, writeA},
		controlplane.ReservationKey("b", "r"):       {everywhere, writeB, writeB},
		controlplane.PoliciesKey("a", "p"):          {inA, writeA, writeA},
		controlplane.PoliciesKey("b", "p"):          {everywhere, writeB, writeB},
		controlplane.PoliciesKey("b", "named"):      {with(everywhere, "admin of a", "agent of n1", "member of a"), writeB, writeB},
		controlplane.PoliciesKey("b", "elsewhere"):  {everywhere, writeB, writeB},
		controlplane.GrantKey("a", "r"):             {inA, schedulers, schedulers},
		controlplane.GrantKey("b", "r"):             {everywhere, schedulers, schedulers},
		controlplane.AllocatedKey("n1"):             {all, schedulers, with(nodes, "scheduler")},
		controlplane.PoolKey("a", "x"):              {inA, schedulers, with(nodes, "scheduler")},
		controlplane.PoolKey("b", "x"):              {everywhere, schedulers, with(nodes, "scheduler")},
		controlplane.BindingKey("n1", "a", "t", 1):  {inA, schedulers, schedulers},
		controlplane.BindingKey("n1", "b", "t", 1):  {with(everywhere, agent...), schedulers, schedulers},
		controlplane.BindingKey("n2", "b", "t", 1):  {everywhere, schedulers, schedulers},
		controlplane.ReportKey("n1", "b", "t", 1):   {with(everywhere, agent...), agent, schedulers},
		controlplane.ReportKey("n2", "a", "t", 1):   {inA, none, schedulers},
		controlplane.ProvidedKey("a", "x", "n2"):    {inA, schedulers, writeA},
		controlplane.ProvidedKey("b", "x", "n1"):    {everywhere, schedulers, writeB},
		controlplane.StatusKey("a", "t"):            {inA, schedulers, writeA},
		controlplane.StatusKey("b", "t"):            {everywhere, schedulers, writeB},
		controlplane.HistoryKey("a", "train"):       {inA, none, none},
		controlplane.HistoryKey("b", "train"):       {everywhere, none, none},
		controlplane.SecretKey("a", "db"):           {none, none, none},
		controlplane.SecretKey("b", "db"):           {none, none, none},
		controlplane.RightKey("r"):                  {none, none, none},
		controlplane.CredentialKey("c"):             {none, none, none},
		controlplane.SchedulerKey("s"):              {but("nobody", "agent of n1"), schedulers, schedulers},
		controlplane.LeaderKey("grant"):             {but("nobody", "agent of n1"), schedulers, schedulers},
		controlplane.LeaderKey("policies"):          {but("nobody", "agent of n1"), none, none},
		controlplane.AdmissionKey():                 {all, none, none},
		controlplane.EpochKey():                     {all, none, none},
		controlplane.Prefix("souls", "a") + "adele": {none, none, none},
	}
}

// TestRights: each user may do with keys what the table says.
func TestRights(t *testing.T) {
	for key, want := range keyRights() {
		for name, u := range users() {
			k, _ := controlplane.Parse(key)
			_, err := looks(t.Context(), u, []byte(key), nil)
			check := func(verb string, i int, err error) {
				t.Helper()
				if may := slices.Contains(want[i], name); (err == nil) != may || err != nil && !types.Is(err, types.Denied) && k.Kind != "" {
					t.Errorf("%s may %s %s: %v", name, verb, key, err)
				}
			}
			check("read", 0, err)
			if k.Kind != "" {
				check("put", 1, u.changes(t.Context(), k, false))
				check("delete", 2, u.changes(t.Context(), k, true))
			}
		}
	}
}

func digest() string { return strings.Repeat("0", 64) }

// TestEveryKindHasARule: a kind is served by a rule, or left out on purpose.
func TestEveryKindHasARule(t *testing.T) {
	for _, a := range writers.Table() {
		if _, served := access.Readable()[a.Kind]; a.Kind != controlplane.Tokens && served == slices.Contains([]controlplane.Kind{controlplane.Rights, controlplane.Credentials, controlplane.Secrets}, a.Kind) {
			t.Errorf("%s: served is %t", a.Kind, served)
		}
	}
}

// TestSpans: a range is within the narrowest prefix of whole segments.
func TestSpans(t *testing.T) {
	end := func(prefix string) string { return clientv3.GetPrefixRangeEnd(prefix) }
	for _, c := range []struct{ from, end, want string }{
		{"/escher/tasks/a/t", "", "tasks key"},
		{"/escher/tasks/a/", end("/escher/tasks/a/"), "tasks [a]"},
		{"/escher/tasks/a/t\x00", end("/escher/tasks/a/"), "tasks [a]"},
		{"/escher/tasks/a/t", end("/escher/tasks/a/t"), "tasks [a]"},
		{"/escher/tasks/a", end("/escher/tasks/a"), "tasks []"},
		{"/escher/tasks/a/", "/escher/tasks/b/x", "tasks []"},
		{"/escher/tasks/", end("/escher/tasks/"), "tasks []"},
		{"/escher/bindings/n1/a/", end("/escher/bindings/n1/a/"), "bindings [n1 a]"},
		{"/escher/tasks/a/", "/escher/tasks/a/", "tasks []"}, // holds nothing
		{"/escher/tasks/", end("/escher/"), " []"},
		{"/escher/tasks/", "/escher/tasks1", " []"},
		{"/escher/a", "/escher/b", " []"},
		{"/escher/tasks/a/", "\x00", "none"}, // to the end of all
		{"/escher/", end("/escher/"), " []"},
		{"/escher", end("/escher"), "none"},
		{"\x00", "\x00", "none"},
		{"/other/tasks/a/", end("/other/tasks/a/"), "none"},
		{"/escher/tasks/a/..", "", "none"},
		{"", "", "none"},
	} {
		s, ok := parseSpan([]byte(c.from), []byte(c.end))
		got := "none"
		if ok {
			if got = fmt.Sprintf("%s %s", s.kind, s.segments); s.single() {
				got = string(s.kind) + " key"
			}
		}
		if got != c.want {
			t.Errorf("%q to %q: %s, want %s", c.from, c.end, got, c.want)
		}
	}
}

// FuzzRanges: whatever the range, a user sees no key in it that it may not read alone, and all that it
// may.
func FuzzRanges(f *testing.F) {
	for _, key := range []string{"/escher/tasks/a/t", "/escher/tasks/b/t", "/escher/bindings/n1/b/t/1", "/escher/allocated/*/b/x", "/escher/leaders/policies", "/escher/allocated/n1"} {
		for _, prefix := range []string{"/escher/", "/escher/tasks/", "/escher/tasks/a/", "/escher/tasks/b/", "/escher/tasks/a", "/escher/bindings/", "/escher/bindings/n1/", "/escher/allocated/*", "/escher/leaders/"} {
			f.Add([]byte(prefix), []byte(clientv3.GetPrefixRangeEnd(prefix)), key)
			f.Add([]byte(prefix), []byte("\x00"), key)
		}
		f.Add([]byte(key), []byte{}, key)
	}
	all := users()
	f.Fuzz(func(t *testing.T, from, end []byte, key string) {
		within := string(from) == key
		if len(end) > 0 {
			within = key >= string(from) && (key < string(end) || string(end) == "\x00")
		}
		k, ok := controlplane.Parse(key)
		if !ok || !within {
			return
		}
		for name, u := range all {
			v, err := looks(t.Context(), u, from, end)
			if err != nil {
				continue // it sees nothing
			}
			alone := u.reads(t.Context(), k) == nil
			if sees := u.shows(t.Context(), v, &mvccpb.KeyValue{Key: []byte(key)}); sees != alone {
				t.Errorf("%s sees %s in %q to %q: %t, alone %t", name, key, from, end, sees, alone)
			}
		}
	})
}
