package rest

import (
	"testing"

	"github.com/escher-sched/escher/api/access"
	"github.com/escher-sched/escher/api/reasons"
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/controlplane/why"
	"github.com/escher-sched/escher/types"
	"github.com/escher-sched/escher/types/rights"
)

// TestHide replaces names of hidden namespaces in each form of text, and no others.
func TestHide(t *testing.T) {
	view := cluster.New()
	for _, ns := range []string{"web", "lab", "ops"} {
		view.Reservations[cluster.ID{Namespace: ns, ID: "r"}] = &cluster.Reservation{}
	}
	ctx := access.With(t.Context(), access.Caller{Identity: access.Identity{Subject: "user:alice"}, May: func(_ rights.Need, ns string) error {
		if ns == "lab" || ns == "ops" {
			return nil
		}
		return types.Errorf(types.Denied, "no")
	}})
	for text, want := range map[string]string{
		"It comes after web/a-1 and lab/web.":                 "It comes after another tenant and lab/web.",
		"reservation web/r.x, ops/r":                          "reservation another tenant, ops/r",
		"web:slots is short":                                  "another tenant is short",
		"It waits for web and the-web/x.":                     "It waits for web and the-web/x.",
		"escher stop a-1 --namespace web":                     heldByAnother,
		"stop a-1 in namespace web.":                          heldByAnother,
		"stop a-1 in namespace web-2, and escher -n ops stop": "stop a-1 in namespace web-2, and escher -n ops stop",
	} {
		e := reasons.Explained{Policies: []string{text}, Explanation: why.Explanation{Reason: why.Reason{Awaits: []why.Object{{Namespace: "web", ID: "a-1"}, {Namespace: "ops", ID: "a"}}}}}
		got, err := hide(ctx, "lab", view, e)
		if err != nil || got.Policies[0] != want || got.Awaits[0] != (why.Object{ID: anotherTenant}) || got.Awaits[1] != e.Awaits[1] {
			t.Errorf("%s: %+v, %v; want %s", text, got, err, want)
		}
	}
}
