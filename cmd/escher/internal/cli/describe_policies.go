package cli

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/controlplane/manifest"
	"github.com/escher-sched/escher/types"
)

// policiesDescription is everything about the policies of a job, or a shared one.
type policiesDescription struct {
	keptRow
	Namespace string `json:"namespace"`
	// Resources and Reservations are what they have made.
	Resources    []amountsRow     `json:"resources,omitempty"`
	Reservations []reservationRow `json:"reservations,omitempty"`
	// Says is what they say of the tasks that wait, a sentence each.
	Says []string `json:"says,omitempty"`
	// Others are the kinds that this version does not know: somebody else's.
	Others []string `json:"others,omitempty"`
}

// newPoliciesDescribe makes the command that tells everything about what is kept.
func newPoliciesDescribe(f *Factory) *cobra.Command {
	return &cobra.Command{
		Use:   "describe JOB|POLICY",
		Short: "Tell what policies have made and hold, and what they say of what waits",
		Args:  exactly("JOB"),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			client, err := f.Client(ctx)
			if err != nil {
				return err
			}
			id, err := resolvePolicies(ctx, client, args[0])
			if err != nil {
				return err
			}
			return f.showPolicies(ctx, client, id)
		},
	}
}

// showPolicies shows all about what is kept under an id.
func (f *Factory) showPolicies(ctx context.Context, client *controlplane.Client, id string) error {
	s, err := policiesOf(ctx, client, id, 0, time.Now())
	if err != nil {
		return err
	}
	if s == nil {
		return types.Errorf(types.NotFound, "policies %s are not there any more: look again", id)
	}
	d := s.describe()
	return f.show(d, id, d.write)
}

// findOrShared is find, or the id of a shared policy: that comes before what merely begins
// with its name.
func findOrShared(ctx context.Context, client *controlplane.Client, name string, kinds ...controlplane.Kind) (it named, shared string, err error) {
	it, err = find(ctx, client, name, kinds...)
	if err == nil && it.id == name || types.ValidateName("id", name) != nil {
		return it, "", err
	}
	id := name
	if types.Is(err, types.NotFound) {
		if begun, wrong := resolvePolicies(ctx, client, name); wrong == nil {
			id = begun
		}
	}
	if kept, _, wrong := keptAt(ctx, client, id, 0); wrong == nil && kept != nil && kept.Job == "" {
		return named{}, id, nil
	}
	return it, "", err
}

// describe tells what is to be known of the policies.
func (s *policySaying) describe() *policiesDescription {
	view := s.view
	if view == nil { // too much to read: what is kept is known
		view = cluster.New()
		view.Policies[s.id] = &cluster.Cell[types.Policies]{V: s.kept}
	}
	d := &policiesDescription{Namespace: s.id.Namespace, Says: s.saysOfAll()}
	for _, row := range keptRows(view, s.now) {
		if row.ID == s.id.ID {
			d.keptRow = row
		}
	}
	for _, p := range s.kept.Policies {
		if s.kinds[p.Kind] == nil {
			d.Others = append(d.Others, p.Kind)
		}
	}
	d.Resources, d.Reservations = s.made()
	return d
}

// made lists what the policies have made.
func (s *policySaying) made() ([]amountsRow, []reservationRow) {
	if s.view == nil {
		return nil, nil
	}
	own := func(name string) bool { return strings.HasPrefix(name, s.id.ID+".") }
	scoped := func(name string) bool { return own(name) && !strings.Contains(name, "@") }
	resources := amountsRows(s.view.Show(s.id.Namespace), scoped)
	slices.SortFunc(resources, func(a, b amountsRow) int { return strings.Compare(a.Name+" "+a.Where, b.Name+" "+b.Where) })
	var reservations []reservationRow
	for id, r := range s.view.Reservations {
		if id.Namespace == s.id.Namespace && own(id.ID) {
			reservations = append(reservations, newReservationRow(id, r, s.now))
		}
	}
	sortBy(reservations, func(r reservationRow) string { return r.ID })
	return resources, reservations
}

// write writes it as text.
func (d *policiesDescription) write(w io.Writer) error {
	s := newSheet(w)
	if d.shared {
		s.line("Policy", d.ID)
		s.line("Referred to by", first(strings.Join(few(d.Jobs), ", "), "no job"))
	} else {
		s.line("Job", d.ID)
		s.line("Name", d.Job)
	}
	s.line("Namespace", d.Namespace)
	s.line("Session", d.Session)
	d.writePolicies(s)
	return s.end()
}

// writePolicies writes what they are, have made, and say.
func (d *policiesDescription) writePolicies(s *sheet) {
	var kept []string
	for _, p := range d.Policies {
		text := policyWords(p)
		if slices.Contains(d.Others, p.Name) {
			text += "  (somebody else's: its program sees to it)"
		}
		kept = append(kept, text)
	}
	s.text("Policies", kept)
	s.text("Wrong", d.Wrong)
	var made []string
	for _, r := range d.Reservations {
		text := "reservation " + r.ID + "  " + r.Phase
		if len(r.Nodes) > 0 {
			text += " on " + strings.Join(few(slices.Compact(slices.Sorted(slices.Values(r.Nodes)))), ", ")
		}
		made = append(made, text)
	}
	s.text("Made", append(made, madeText(d.Resources)...))
	s.text("Say", d.Says)
}

// madeText lists resources: where there is the same on several nodes, once.
func madeText(rows []amountsRow) []string {
	type alike struct{ name, amount string }
	at := make(map[alike][]string)
	var order []alike
	for _, r := range rows {
		id := types.ResourceID(r.Name)
		k := alike{r.Name, fmt.Sprintf("%s of %s in use", r.Allocated.Format(id), r.Capacity.Format(id))}
		if at[k] == nil {
			order = append(order, k)
		}
		at[k] = append(at[k], r.Where)
	}
	var out []string
	for _, k := range order {
		where := "on " + strings.Join(few(at[k]), ", ")
		if at[k][0] == wholeCluster {
			where = "in the cluster"
		}
		out = append(out, fmt.Sprintf("resource %s  %s %s", k.name, k.amount, where))
	}
	if len(out) > mostListed {
		out = append(out[:mostListed], fmt.Sprintf("… and %d more: escher resources", len(out)-mostListed))
	}
	return out
}

// few shortens a list of names.
func few(names []string) []string {
	const most = 8
	if len(names) <= most {
		return names
	}
	return append(slices.Clone(names[:most]), "…")
}

// policiesOf describes the policies of the job that is described, or is that of the
// task; nil if it has none.
func (d *describing) policiesOf(ctx context.Context, job string) (*policiesDescription, error) {
	if job == "" {
		return nil, nil
	}
	s, err := policiesOf(ctx, d.client, job, d.view.Revision, d.now)
	if s == nil || err != nil {
		return nil, err
	}
	return s.describe(), nil
}

// policiesKept returns the policies of a job, with their parameters.
func (d *describing) policiesKept(ctx context.Context, job string) ([]manifest.Policy, error) {
	if job == "" {
		return nil, nil
	}
	kept, _, err := keptAt(ctx, d.client, job, d.view.Revision)
	if kept == nil || err != nil {
		return nil, err
	}
	return written(kept.Policies), nil
}
