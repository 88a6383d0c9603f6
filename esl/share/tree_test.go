package share

import (
	"strings"
	"testing"

	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/types"
)

// TestTree finds users in a tree of teams, and their weights.
func TestTree(t *testing.T) {
	all := Team{Of: map[string]Team{"a": {Weight: 2, Of: map[string]Team{"alice": {}, "ada": {Weight: 3}}}, "b": {Anyone: 1}, "carl": {}}}
	var users []string
	if err := all.eachUser("", func(as string) error { users = append(users, as); return nil }); err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(users, " "); got != "a/ada a/alice carl" {
		t.Errorf("the users are %s", got)
	}
	for as, want := range map[string]string{
		"a/alice": "", "b/anyone": "", "carl": "",
		"":         "as: is missing",
		"a":        `as: "a" is a team: name one of its users, such as a/ada`,
		"b":        `as: "b" is a team: name one of its users, such as b/NAME`,
		"a/bob":    `as: "a/bob": there is no a/bob: use ada, alice`,
		"carl/x":   `as: "carl/x": carl is a user, not a team`,
		"dan":      `as: "dan": there is no dan: use a, b, carl`,
		"a/x.y":    "contains a dot",
		"a//alice": "as",
	} {
		if err := all.user(as); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", as, err, want)
		}
	}
	for path, want := range map[string]string{"": "ann", "a": "a/ann", "b": "b/ann", "b/alice": "b/alice", "a/bob": "a/bob", "carl": "carl", "dan": "dan"} {
		if got := all.withUser(esl.Use{Name: "all", As: path}, "b", "ann"); got != want {
			t.Errorf("%q of ann is %q, want %q", path, got, want)
		}
	}
	for u, want := range map[esl.Use]string{
		{Name: "org:all"}:              "b/ann",
		{Name: "org:all", As: "b"}:     "b/ann",
		{Name: "org:all", As: "b/dan"}: "b/dan",
		{Name: "b:all"}:                "ann", // of the own namespace
	} {
		if got := all.withUser(u, "b", "ann"); got != want {
			t.Errorf("%+v of ann is %q, want %q", u, got, want)
		}
	}
	for path, want := range map[string]float64{"a/ada": 3, "a/alice": 1, "a/gone": 1, "b/any": 1} {
		team, name, _ := strings.Cut(path, "/")
		if got := all.Of[team].weight(name); got != want {
			t.Errorf("the weight of %s is %g, want %g", path, got, want)
		}
	}
}

// TestPayer finds the user in the name of a pool.
func TestPayer(t *testing.T) {
	for pool, want := range map[string]string{
		sharePool("s", "alice", "cpu"): "alice", sharePool("s.t", "a/b/alice", "memory"): "alice", sharePool("s", "alice", "acme.com/fpga"): "",
		"s.fair-share.alice": "", "s.fair-share.0": "", "fair-share.alice.cpu": "", "cpu": "", "": "", "s.queue.alice.cpu": "",
	} {
		if got := Payer(pool); got != want {
			t.Errorf("%s is of %q, want %q", pool, got, want)
		}
	}
}

// TestPools makes a task with alternatives draw on the pools of its user, once.
func TestPools(t *testing.T) {
	const mi = 1 << 20
	use, over := esl.Use{Name: "s", As: "a/alice"}, resourcesOf(nil)
	task := &types.Task{
		Requests:     types.NewRequests(map[string]types.Quantity{"cpu": 1500, "memory": 3*mi + mi/2}),
		Alternatives: []types.Alternative{{Requests: types.NewRequests(map[string]types.Quantity{"gpu": 500})}, {}},
	}
	for range 2 {
		if !cover(use, task, over) {
			t.Error("it draws on nothing")
		}
	}
	for pool, want := range map[string]types.Quantity{"s.fair-share.a.alice.cpu": 1500, "s.fair-share.a.alice.memory": 3500, "s.fair-share.a.alice.gpu": 0} {
		if got := task.Requests.Get(pool); got != want {
			t.Errorf("it draws %d of %s, want %d", got, pool, want)
		}
	}
	if got := task.Alternatives[0].Requests.Get("s.fair-share.a.alice.gpu"); got != 500 {
		t.Errorf("one alternative draws %d of the gpus", got)
	}
	if cover(use, &types.Task{Requests: types.NewRequests(map[string]types.Quantity{"disk": 1})}, over) {
		t.Error("what requests nothing that is shared draws on a pool")
	}
}
