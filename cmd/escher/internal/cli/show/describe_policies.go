package show

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/escher-sched/escher/api/document"
	"github.com/escher-sched/escher/api/reasons"
	"github.com/escher-sched/escher/cmd/escher/internal/cli/cmdutil"
	"github.com/escher-sched/escher/cmd/escher/internal/cli/policy"
	"github.com/escher-sched/escher/cmd/escher/internal/cli/render"
	"github.com/escher-sched/escher/cmd/escher/internal/cli/resource"
	"github.com/escher-sched/escher/cmd/escher/internal/howto"
	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/controlplane/manifest"
	"github.com/escher-sched/escher/types"
)

// policiesDescription describes the policies of a job, or a shared one.
type policiesDescription struct {
	policy.KeptRow
	Namespace string `json:"namespace"`
	// Resources and Reservations are those that the policies created.
	Resources    []resource.AmountsRow     `json:"resources,omitempty"`
	Reservations []resource.ReservationRow `json:"reservations,omitempty"`
	// Says are their explanations for waiting tasks, a sentence each.
	Says []string `json:"says,omitempty"`
	// Others are the kinds that this version does not know: those of other programs.
	Others []string `json:"others,omitempty"`
}

// NewPoliciesDescribe returns the command that describes policies.
func NewPoliciesDescribe(f *cmdutil.Factory) *cobra.Command {
	return &cobra.Command{
		Use:   "describe JOB|POLICY",
		Short: "Show what policies have created, and their reasons for waiting tasks",
		Long: `Shows what the policies of a job, or a shared policy, have created, which tasks hold it, and
their reasons for waiting tasks.

  escher policies describe nightly
  escher policies describe team`,
		Args: cmdutil.Exactly("JOB"),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			client, err := f.Client(ctx)
			if err != nil {
				return err
			}
			id, err := policy.ResolvePolicies(ctx, client, args[0])
			if err != nil {
				return err
			}
			return showPolicies(f, ctx, client, id)
		},
	}
}

// showPolicies describes the policies with an id.
func showPolicies(f *cmdutil.Factory, ctx context.Context, client *controlplane.Client, id string) error {
	s, err := reasons.PoliciesOf(ctx, client, id, nil, 0, time.Now(), howto.Say)
	if err != nil {
		return err
	}
	if s == nil {
		return types.Errorf(types.NotFound, "policies %s are not there any more: look again", id)
	}
	d := Describe(s)
	return f.Show(d, id, d.Write)
}

// findAny finds an object of the chosen kinds; without choice, one of all kinds or a shared policy.
func findAny(ctx context.Context, client *controlplane.Client, name string, all, chosen []controlplane.Kind) (it cmdutil.Named, shared string, err error) {
	if len(chosen) == 0 {
		return findOrShared(ctx, client, name, all...)
	}
	it, err = cmdutil.Find(ctx, client, name, chosen...)
	return it, "", err
}

// findOrShared is cmdutil.Find, or returns the id of a shared policy: that comes before objects
// whose ids only begin with the name.
func findOrShared(ctx context.Context, client *controlplane.Client, name string, kinds ...controlplane.Kind) (it cmdutil.Named, shared string, err error) {
	it, err = cmdutil.Find(ctx, client, name, kinds...)
	if err == nil && it.ID == name || types.ValidateName("id", name) != nil {
		return it, "", err
	}
	id := name
	if types.Is(err, types.NotFound) {
		switch begun, wrong := policy.ResolvePolicies(ctx, client, name); {
		case wrong == nil:
			id = begun
		case types.Is(wrong, types.Denied):
			return it, "", wrong
		}
	}
	if kept, _, wrong := reasons.KeptAt(ctx, client, id, 0); wrong == nil && kept != nil && kept.Job == "" {
		return cmdutil.Named{}, id, nil
	}
	return it, "", err
}

// Describe describes policies.
func Describe(s *reasons.Policies) *policiesDescription {
	view := s.View
	if view == nil { // too much to read: only the policies are known
		view = cluster.New()
		view.Policies[s.ID] = &cluster.Cell[types.Policies]{V: s.Kept}
	}
	d := &policiesDescription{Namespace: s.ID.Namespace, Says: s.SaysOfAll()}
	for _, row := range policy.KeptRows(view, s.Now) {
		if row.ID == s.ID.ID && row.Namespace == s.ID.Namespace {
			d.KeptRow = row
		}
	}
	for _, p := range s.Kept.Policies {
		if s.Kinds.Of(p.Kind) == nil {
			d.Others = append(d.Others, p.Kind)
		}
	}
	d.Resources, d.Reservations = made(s)
	return d
}

// made lists the objects that the policies created.
func made(s *reasons.Policies) ([]resource.AmountsRow, []resource.ReservationRow) {
	if s.View == nil {
		return nil, nil
	}
	own := func(name string) bool { return strings.HasPrefix(name, s.ID.ID+".") }
	scoped := func(name string) bool { return own(name) && !strings.Contains(name, "@") }
	resources := resource.AmountsRows(s.View.Show(s.ID.Namespace), scoped)
	slices.SortFunc(resources, func(a, b resource.AmountsRow) int { return strings.Compare(a.Name+" "+a.Where, b.Name+" "+b.Where) })
	var reservations []resource.ReservationRow
	for id, r := range s.View.Reservations {
		if id.Namespace == s.ID.Namespace && own(id.ID) {
			reservations = append(reservations, resource.NewReservationRow(id, r, s.Now))
		}
	}
	cmdutil.SortBy(reservations, func(r resource.ReservationRow) string { return r.ID })
	return resources, reservations
}

// Write writes it as text.
func (d *policiesDescription) Write(w io.Writer) error {
	s := render.NewSheet(w)
	if d.Shared {
		s.Line("Policy", d.ID)
		s.Line("Referred to by", cmdutil.First(strings.Join(few(d.Jobs), ", "), "no job"))
	} else {
		s.Line("Job", d.ID)
		s.Line("Name", d.Job)
	}
	s.Line("Namespace", d.Namespace)
	s.Line("Session", d.Session)
	d.writePolicies(s)
	return s.End()
}

// writePolicies writes the policies, their objects, and their explanations.
func (d *policiesDescription) writePolicies(s *render.Sheet) {
	var kept []string
	for _, p := range d.Policies.Policies {
		text := policy.PolicyWords(p)
		if slices.Contains(d.Others, p.Name) {
			text += "  (run by a program of its own)"
		}
		kept = append(kept, text)
	}
	s.Text("Policies", kept)
	s.Text("Wrong", d.Wrong)
	var made []string
	for _, r := range d.Reservations {
		text := "reservation " + r.ID + "  " + r.Phase
		if len(r.Nodes) > 0 {
			text += " on " + strings.Join(few(slices.Compact(slices.Sorted(slices.Values(r.Nodes)))), ", ")
		}
		made = append(made, text)
	}
	s.Text("Made", append(made, madeText(d.Resources)...))
	s.Text("Say", d.Says)
}

// madeText lists resources: equal amounts on several nodes once.
func madeText(rows []resource.AmountsRow) []string {
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
		if at[k][0] == resource.WholeCluster {
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

// policiesOf describes the policies of a job; nil if it has none.
func (d *describing) policiesOf(ctx context.Context, job string) (*policiesDescription, error) {
	if job == "" {
		return nil, nil
	}
	s, err := reasons.PoliciesOf(ctx, d.client, job, nil, d.view.Revision, d.now, howto.Say)
	if s == nil || err != nil {
		return nil, err
	}
	return Describe(s), nil
}

// policiesKept returns the policies of a job, with their parameters.
func (d *describing) policiesKept(ctx context.Context, job string) ([]manifest.Policy, error) {
	if job == "" {
		return nil, nil
	}
	kept, _, err := reasons.KeptAt(ctx, d.client, job, d.view.Revision)
	if kept == nil || err != nil {
		return nil, err
	}
	return document.Written(kept.Policies), nil
}
