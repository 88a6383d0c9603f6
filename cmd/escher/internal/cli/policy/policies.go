// Package policy holds the commands about policies, and what policies say about waiting tasks.
package policy

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/escher-sched/escher/api/document"
	"github.com/escher-sched/escher/api/library"
	"github.com/escher-sched/escher/cmd/escher/internal/cli/cmdutil"
	"github.com/escher-sched/escher/cmd/escher/internal/cli/render"
	"github.com/escher-sched/escher/cmd/escher/internal/table"
	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/controlplane/manifest"
	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/types"
	"github.com/escher-sched/escher/types/words"
)

const policiesHelp = `What jobs keep to beyond what each task asks for: gang, spread, queue and others. They
are given to escher run by flags, or written into a file, and end with their job; those
that jobs share, such as a queue, are declared in a file, with kind: Policy, and stay.

  escher policies kinds           what there is, with its parameters
  escher policies                 what is kept now, as escher policies ls
  escher policies describe team   what it has made, holds, and says of what waits
  escher policies log team        what it decided lately, and why it did nothing
  escher policies rm nightly      ends a shared one`

// NewPolicies returns the commands about policies.
func NewPolicies(f *cmdutil.Factory) *cobra.Command {
	var watch bool
	cmd := &cobra.Command{
		Use:     "policies",
		Aliases: []string{"policy"},
		Short:   "List and describe scheduling policies, and end shared ones",
		Long:    policiesHelp,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return types.Errorf(types.Invalid, "command: policies %q is unknown: use ls, describe, log, rm or kinds: escher policies --help", args[0])
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return listPolicies(cmd.Context(), f, watch) },
	}
	cmdutil.AddWatch(cmd, &watch)
	cmd.AddCommand(newPoliciesList(f), newPoliciesLog(f), newPoliciesRemove(f), newPoliciesKinds(f))
	return cmd
}

// KeptRow is a row of a list of policies: those of a job, or a shared one.
type KeptRow struct{ document.Policies }

// Header returns the columns.
func (KeptRow) Header() []table.Column {
	return table.Columns("id", "of", "policies", "session", "(with)")
}

// Row returns the cells.
func (k KeptRow) Row() []string {
	var names, with []string
	for _, p := range k.Policies.Policies {
		names = append(names, kindName(p))
		with = append(with, PolicyWords(p))
	}
	kinds := strings.Join(names, ",")
	if len(k.Wrong) > 0 {
		kinds += " (wrong)"
	}
	return []string{k.ID, k.Of(), kinds, k.Session, strings.Join(with, ", ")}
}

// kindName returns the name of a policy; for a use, the kind and the id of the shared policy.
func kindName(p manifest.Policy) string {
	if u, ok := esl.UseOf(types.Policy{Kind: p.Name, With: parametersText(p)}); ok {
		return strings.TrimSpace(u.Of + " " + u.Name)
	}
	return p.Name
}

// Of names the owner.
func (k KeptRow) Of() string {
	switch {
	case !k.Shared:
		return strings.TrimSpace("job " + k.Job)
	}
	return words.Count(len(k.Jobs), "job")
}

// PolicyWords formats a policy with its parameters on a line.
func PolicyWords(p manifest.Policy) string {
	return strings.TrimSpace(p.Name + " " + parametersText(p))
}

// parametersText returns the parameters of a policy as Written has them.
func parametersText(p manifest.Policy) string {
	text, _ := p.With.(manifest.With)
	return string(text)
}

// KeptRows lists the policies of a view of one namespace.
func KeptRows(view *cluster.View, _ time.Time) []KeptRow {
	all := document.PoliciesOf(view)
	rows := make([]KeptRow, len(all))
	for i := range all {
		rows[i].Policies = all[i]
	}
	return rows
}

// newPoliciesList returns the command that lists policies.
func newPoliciesList(f *cmdutil.Factory) *cobra.Command {
	var watch bool
	cmd := &cobra.Command{
		Use:   "ls",
		Short: "List the policies of jobs, and shared policies",
		Long: `Lists the policies of jobs, and shared policies.

  escher policies ls
  escher policies ls -o wide     with their parameters`,
		Args: cmdutil.Exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error { return listPolicies(cmd.Context(), f, watch) },
	}
	cmdutil.AddWatch(cmd, &watch)
	return cmd
}

func listPolicies(ctx context.Context, f *cmdutil.Factory, watch bool) error {
	if watch {
		kinds := []controlplane.Kind{controlplane.Policies, controlplane.Jobs}
		return cmdutil.WatchList(ctx, f, cmdutil.Listing[KeptRow]{Kinds: kinds, Rows: KeptRows})
	}
	client, err := f.Client(ctx)
	if err != nil {
		return err
	}
	ns := client.Namespace()
	view, err := cluster.ReadView(ctx, client.Store(), controlplane.Prefix(controlplane.Policies, ns), controlplane.Prefix(controlplane.Jobs, ns))
	if err != nil {
		return err
	}
	return cmdutil.Print(f, KeptRows(view, time.Now()))
}

// newPoliciesRemove returns the command that ends shared policies.
func newPoliciesRemove(f *cmdutil.Factory) *cobra.Command {
	var force bool
	cmd := &cobra.Command{
		Use:   "rm POLICY...",
		Short: "End shared policies, with the resources that they created",
		Long: `Ends shared policies, and removes the resources that they created.

  escher policies rm nightly`,
		Args: cmdutil.AtLeastOne("POLICY"),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			client, err := f.Client(ctx)
			if err != nil {
				return err
			}
			for _, id := range args {
				if _, _, err := client.Policies(ctx, id); types.Is(err, types.NotFound) {
					_, err = client.ResolveKind(ctx, controlplane.Policies, id)
					return notWhole(id, err)
				}
				if err := f.Withdraw(ctx, id, force); err != nil {
					return err
				}
				fmt.Fprintln(f.Out, id)
			}
			return nil
		},
	}
	cmd.Flags().BoolVarP(&force, "force", "f", false, "even if jobs refer to them, whose waiting tasks then wait for ever")
	return cmd
}

// notWhole says that an id must be given in full, or returns err.
func notWhole(id string, err error) error {
	if err != nil {
		return err
	}
	return types.Errorf(types.NotFound, "policies rm: there is no policy %s, though some begin so: give its name in full", id)
}

// kindRow is a row of a list of kinds of policies.
type kindRow struct {
	Name string `json:"name"`
	// Use says whether jobs name it, or it is declared by itself.
	Use  string `json:"use"`
	Does string `json:"does"`
	// Parameters is the JSON Schema of its parameters.
	Parameters json.RawMessage `json:"parameters"`
	// With are the names of its parameters, required ones first.
	With []manifest.Parameter `json:"with,omitempty"`
}

// Header returns the columns.
func (kindRow) Header() []table.Column { return table.Columns("policy", "use", "does", "parameters") }

// Row returns the cells.
func (k kindRow) Row() []string {
	var names []string
	for _, p := range k.With {
		name := p.Name
		if !p.Required {
			name = "[" + name + "]"
		}
		names = append(names, name)
	}
	return []string{k.Name, k.Use, k.Does, strings.Join(names, " ")}
}

// newPoliciesKinds returns the command that lists the kinds of policies.
func newPoliciesKinds(f *cmdutil.Factory) *cobra.Command {
	return &cobra.Command{
		Use:   "kinds [KIND]",
		Short: "List the kinds of policies, or the parameters of one",
		Long: `Lists the kinds of policies, or the parameters of one.

  escher policies kinds
  escher policies kinds gang`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 1 {
				return cmdutil.Exactly("KIND")(cmd, args)
			}
			return nil
		},
		RunE: func(_ *cobra.Command, args []string) error {
			known := library.KnownPolicies()
			var rows []kindRow
			for _, name := range render.SortedKeys(known) {
				row, err := newKindRow(name, known)
				if err != nil {
					return err
				}
				rows = append(rows, row)
			}
			if len(args) == 0 {
				return cmdutil.Print(f, rows)
			}
			at := slices.IndexFunc(rows, func(k kindRow) bool { return k.Name == args[0] })
			for _, r := range esl.Renamings() {
				if r.Kind == args[0] {
					return types.Errorf(types.NotFound, "policies kinds: %s is called use now: escher policies kinds use", r.Kind)
				}
			}
			for now, was := range esl.FormerKinds() {
				if was == args[0] {
					return types.Errorf(types.NotFound, "policies kinds: %s is called %s now: escher policies kinds %[2]s", was, now)
				}
			}
			if at < 0 {
				return types.Errorf(types.NotFound, "policies kinds: %q is unknown: %s", args[0], known.Suggest(args[0], render.SortedKeys(known)))
			}
			return f.Show(rows[at], args[0], rows[at].Write)
		},
	}
}

func newKindRow(name string, known manifest.Policies) (kindRow, error) {
	kind := known[name]
	row := kindRow{Name: name, Use: "job", Does: kind.Desc, With: manifest.Parameters(kind)}
	switch {
	case kind.Job && kind.Shared:
		row.Use = "job, shared"
	case kind.Shared:
		row.Use = "shared"
	}
	text, err := manifest.ParameterSchema(kind)
	row.Parameters = text
	return row, err
}

// Write writes it as text.
func (k kindRow) Write(w io.Writer) error {
	s := render.NewSheet(w)
	s.Line("Policy", k.Name)
	s.Line("Does", k.Does)
	s.Line("Use", k.Use)
	s.Group("Parameters")
	var all cmdutil.Form
	if err := json.Unmarshal(k.Parameters, &all); err != nil {
		return err
	}
	for _, p := range k.With {
		text := p.Desc
		if p.Required {
			text += " (must be given)"
		}
		at := all.Properties[p.Name]
		s.Line("  "+at.Written(p.Name), text)
		fields := at.Fields(all.Defs)
		for _, name := range render.SortedKeys(fields) {
			s.Line("    "+fields[name].Written(name), fields[name].Description)
		}
	}
	if len(k.With) == 0 {
		s.Line("  none", "it has no parameters")
	}
	return s.End()
}

// ResolvePolicies returns the id of the only policies whose id is name, or begins with it; of
// several, those of the job with exactly that name.
func ResolvePolicies(ctx context.Context, client *controlplane.Client, name string) (string, error) {
	id, err := client.ResolveKind(ctx, controlplane.Policies, name)
	if !types.Is(err, types.Invalid) {
		return id, err
	}
	jobs, wrong := cmdutil.IdsCalled(ctx, client, controlplane.Jobs, name)
	if wrong != nil {
		return "", wrong
	}
	kept := slices.DeleteFunc(jobs, func(job string) bool {
		_, _, none := client.Policies(ctx, job)
		return none != nil
	})
	if len(kept) == 1 {
		return kept[0], nil
	}
	return "", err
}
