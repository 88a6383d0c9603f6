package apply_test

import (
	"context"
	"strings"
	"testing"

	"github.com/escher-sched/escher/esl/apply"
	"github.com/escher-sched/escher/types"
	"github.com/escher-sched/escher/types/rights"
)

const right = `apiVersion: escher.dev/v1
kind: Right
name: lab
subjects: [user:b, user:a]
role: member
namespaces: [lab, web]
`

// giver has one right, and records what is given.
type giver struct {
	before   types.Right
	revision int64
	refuses  error
	given    []string
}

func (g *giver) rights() apply.Rights { return apply.Rights{Before: g.compared, Give: g.give} }

func (g *giver) compared(context.Context, string, *types.Right) (types.Right, int64, error) {
	return g.before, g.revision, g.refuses
}

func (g *giver) give(_ context.Context, all map[string]types.Right, revisions map[string]int64) error {
	for name, r := range all {
		g.given = append(g.given, name+" "+string(r.Role))
		if revisions[name] != g.revision {
			return types.Errorf(types.Conflict, "%s is not at %d", name, revisions[name])
		}
	}
	return nil
}

// TestRights compares a right with its document: the order of its lists does not count.
func TestRights(t *testing.T) {
	is := types.Right{Subjects: []string{"user:a", "user:b", "user:a"}, Role: rights.Member, Namespaces: []string{"web", "lab"}}
	other := is
	other.Role, other.Allow = "", []string{"read tasks"}
	for name, c := range map[string]struct {
		g           giver
		action      apply.Action
		differences string
		given       string
	}{
		"new":         {giver{}, apply.Set, "namespaces: none → lab, web; role: none → member; subjects: none → user:a, user:b", "lab member"},
		"as it is":    {giver{before: is, revision: 7}, apply.Unchanged, "", ""},
		"another one": {giver{before: other, revision: 7}, apply.Set, "allow: read tasks → none; role: none → member", "lab member"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			d := w.apply(right, apply.Options{Rights: c.g.rights()})
			if x := d.Changes[0]; x.Action != c.action || strings.Join(x.Differences, "; ") != c.differences {
				t.Errorf("%s %q", x.Action, x.Differences)
			}
			if got := strings.Join(c.g.given, " "); got != c.given {
				t.Errorf("given: %q", got)
			}
		})
	}
}

// TestRightsRefused: nothing of a file is done if one of its rights may not be given, or another document
// is in the way.
func TestRightsRefused(t *testing.T) {
	w := newWorld(t)
	w.blocked(web+"---\n"+right, apply.Options{}, types.Invalid, "right lab: kind: rights are given by a server")
	denied := &giver{refuses: types.Errorf(types.Denied, "no right to give it")}
	w.blocked(web+"---\n"+right, apply.Options{Rights: denied.rights()}, types.Denied, "right lab: no right to give it")
	g := &giver{}
	w.apply(web, apply.Options{})
	w.blocked(changed+"---\n"+right, apply.Options{Rights: g.rights()}, types.Precondition, "allow replacing")
	if len(g.given) > 0 {
		t.Errorf("given: %q", g.given)
	}
}

// TestPlanOfRightForgotten: the digest of a plan does not cover rights.
func TestPlanOfRightForgotten(t *testing.T) {
	w := newWorld(t)
	w.apply(slot, apply.Options{})
	opts := apply.Options{Rights: (&giver{}).rights()}
	d, err := w.decide(right, opts)
	if err != nil {
		t.Fatal(err)
	}
	w.apply(web, apply.Options{})
	w.apply(train, apply.Options{})
	w.forget(w.revision())
	opts.If = d.Condition
	w.blocked(right, opts, types.Precondition, "is gone", "review the plan")
}
