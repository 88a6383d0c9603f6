// Package namespace holds the commands about namespaces.
package namespace

import (
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/escher-sched/escher/api/document"
	"github.com/escher-sched/escher/cmd/escher/internal/cli/cmdutil"
	"github.com/escher-sched/escher/cmd/escher/internal/cli/render"
	"github.com/escher-sched/escher/cmd/escher/internal/table"
	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/manifest"
	"github.com/escher-sched/escher/controlplane/quotas"
	"github.com/escher-sched/escher/types"
)

const namespaceHelp = `Shows and changes what an administrator sets for namespaces: their budgets and
their quotas. A namespace needs no settings: it has the built-in defaults then.

  escher namespace create team --max-keys 10000 --max-priority 100
  escher namespace set team --max-pending 500 --accumulate=false
  escher namespace describe team
  escher namespace ls
  escher namespace rm team`

// NewNamespace returns the command that shows and changes namespaces.
func NewNamespace(f *cmdutil.Factory) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "namespace",
		Short: "Show and change the budgets of namespaces",
		Long:  namespaceHelp,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return types.Errorf(types.Invalid, "command: namespace %q is unknown: use create, ls, describe, set or rm: escher namespace --help", args[0])
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newNamespaceCreate(f), newNamespaceLs(f), newNamespaceDescribe(f), newNamespaceSet(f), newNamespaceRm(f))
	return cmd
}

// newNamespaceCreate returns the command that creates the settings of a namespace.
func newNamespaceCreate(f *cmdutil.Factory) *cobra.Command {
	var flags namespaceFlags
	cmd := &cobra.Command{
		Use:   "create NAMESPACE",
		Short: "Create the settings of a namespace",
		Long: `Creates the settings of a namespace. What is left out has the built-in default.

  escher namespace create team --max-keys 10000 --max-priority 100`,
		Args: cmdutil.Exactly("NAMESPACE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			var n types.Namespace
			flags.namespace = args[0]
			if err := flags.apply(&n); err != nil {
				return err
			}
			if err := put(cmd.Context(), f, args[0], &n, 0); err != nil {
				return err
			}
			fmt.Fprintln(f.Out, args[0])
			return nil
		},
	}
	flags.Add(cmd)
	return cmd
}

// newNamespaceSet returns the command that changes the settings of a namespace.
func newNamespaceSet(f *cmdutil.Factory) *cobra.Command {
	var flags namespaceFlags
	cmd := &cobra.Command{
		Use:   "set NAMESPACE",
		Short: "Change the settings of a namespace; the others stay",
		Long: `Changes the settings of a namespace; the others stay.

  escher namespace set team --max-pending 500 --accumulate=false`,
		Args: cmdutil.Exactly("NAMESPACE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if !flags.Given() {
				return types.Errorf(types.Invalid, "set namespace %s: no setting is given: give one, such as --max-keys 10000", args[0])
			}
			flags.namespace = args[0]
			if err := flags.change(cmd.Context(), f, args[0]); err != nil {
				return err
			}
			fmt.Fprintln(f.Out, args[0])
			return nil
		},
	}
	flags.Add(cmd)
	return cmd
}

// newNamespaceRm returns the command that deletes the settings of namespaces.
func newNamespaceRm(f *cmdutil.Factory) *cobra.Command {
	return &cobra.Command{
		Use:   "rm NAMESPACE...",
		Short: "Delete the settings of namespaces that are not in use",
		Long: `Deletes the settings of namespaces that are not in use.

  escher namespace rm team`,
		Args: cmdutil.AtLeastOne("NAMESPACE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			for _, name := range args {
				if err := f.Change(cmd.Context(), http.MethodDelete, pathOf(name), nil, nil); err != nil {
					return err
				}
				fmt.Fprintln(f.Out, name)
			}
			return nil
		},
	}
}

// newNamespaceLs returns the command that lists namespaces with settings.
func newNamespaceLs(f *cmdutil.Factory) *cobra.Command {
	return &cobra.Command{
		Use:   "ls",
		Short: "List namespaces with their budgets",
		Long: `Lists namespaces with their budgets.

  escher namespace ls -o wide`,
		Args: cmdutil.Exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := f.API(cmd.Context())
			if err != nil {
				return err
			}
			all, err := cmdutil.Pages[document.Namespace](cmd.Context(), c, "/v1/namespaces", nil)
			if err != nil {
				return err
			}
			rows := make([]namespaceRow, len(all))
			for i := range all {
				if rows[i], err = rowOf(&all[i]); err != nil {
					return err
				}
			}
			return cmdutil.Print(f, rows)
		},
	}
}

// newNamespaceDescribe returns the command that describes a namespace.
func newNamespaceDescribe(f *cmdutil.Factory) *cobra.Command {
	return &cobra.Command{
		Use:   "describe NAMESPACE",
		Short: "Show everything about a namespace",
		Long: `Shows the settings of a namespace, and how much of its budgets it uses.

  escher namespace describe team`,
		Args: cmdutil.Exactly("NAMESPACE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			done := f.Progress("reading the namespace")
			n, err := get(cmd.Context(), f, args[0])
			done()
			if err != nil {
				return err
			}
			row, err := rowOf(&n.Namespace)
			if err != nil {
				return err
			}
			row.Closed, row.Used = n.Closed, n.Used
			return f.Show(row, row.Name, row.Write)
		},
	}
}

// described is a namespace with what it uses.
type described struct {
	document.Namespace
	Used   *namespaceUse
	Closed string
}

// pathOf returns the path of the API of a namespace.
func pathOf(name string) string { return "/v1/namespaces/" + url.PathEscape(name) }

// get reads a namespace, whose revision is 0 if it has no settings.
func get(ctx context.Context, f *cmdutil.Factory, name string) (n described, err error) {
	c, err := f.API(ctx)
	if err != nil {
		return n, err
	}
	if err := types.ValidateName("namespace", name); err != nil {
		return n, err
	}
	err = c.Get(ctx, pathOf(name), nil, &n)
	n.Name = name
	return n, err
}

// put sets the settings of a namespace, if they are of a revision. Conflict: they are not.
func put(ctx context.Context, f *cmdutil.Factory, name string, n *types.Namespace, revision int64) error {
	if err := types.ValidateName("namespace", name); err != nil {
		return types.Errorf(types.Invalid, "create namespace: %w", err)
	}
	path := pathOf(name) + "?ifRevision=" + strconv.FormatInt(revision, 10)
	return f.Change(ctx, http.MethodPut, path, manifest.FromNamespace(n), nil)
}

// changesAtMost is how often settings that others change meanwhile are read again.
const changesAtMost = 5

// change changes the given settings of a namespace.
func (n *namespaceFlags) change(ctx context.Context, f *cmdutil.Factory, name string) error {
	for try := 1; ; try++ {
		is, err := get(ctx, f, name)
		if err != nil {
			return err
		}
		want, err := is.Settings()
		if err == nil {
			err = n.apply(&want)
		}
		if err == nil {
			err = put(ctx, f, name, &want, is.Revision)
		}
		if again := types.Is(err, types.Conflict) || is.Revision == 0 && types.Is(err, types.AlreadyExists); !again || try == changesAtMost {
			return err
		}
	}
}

// rowOf returns the row of a namespace.
func rowOf(n *document.Namespace) (namespaceRow, error) {
	settings, err := n.Settings()
	if err != nil {
		return namespaceRow{}, types.Errorf(types.Internal, "read namespace %s: %w", n.Name, err)
	}
	return newNamespaceRow(&controlplane.Namespace{Name: n.Name, Revision: n.Revision, Namespace: settings}), nil
}

// namespaceRow is a row of a list of namespaces: with the built-in default of each budget that is
// not set.
type namespaceRow struct {
	Name string `json:"name"`
	// Revision is that of its last change; 0 means that nothing is set.
	Revision int64           `json:"revision,omitempty"`
	Budget   namespaceBudget `json:"budget"`
	// Used is the usage that describe counts.
	Used *namespaceUse `json:"used,omitempty"`
	// Closed names the exhausted budget, if nothing can be added.
	Closed   string   `json:"closed,omitempty"`
	Defaults []string `json:"defaults,omitempty"`
	Pids     int      `json:"pids,omitempty"`
	Requests []string `json:"requests,omitempty"`
	Quotas   []string `json:"quotas,omitempty"`
	Policies []string `json:"policies,omitempty"`
}

// namespaceBudget is types.Budget in a form to print.
type namespaceBudget struct {
	Keys       int64 `json:"keys"`
	Bytes      int64 `json:"bytes"`
	Pending    int64 `json:"pending"`
	Priority   int   `json:"priority"`
	Accumulate bool  `json:"accumulate"`
	Requests   int64 `json:"requests"`
	Watches    int64 `json:"watches"`
}

// namespaceUse is the usage of the budget of a namespace.
type namespaceUse struct {
	Keys    int64 `json:"keys"`
	Bytes   int64 `json:"bytes"`
	Pending int64 `json:"pending"`
}

func newNamespaceRow(n *controlplane.Namespace) namespaceRow {
	b := n.Allowed()
	row := namespaceRow{
		Name: n.Name, Revision: n.Revision,
		Budget: namespaceBudget{b.Keys, b.Bytes, b.Pending, b.Priority.Max, !b.NoAccumulate, b.Requests, b.Watches},
		Pids:   n.Pids,
	}
	for _, r := range n.Requests {
		row.Requests = append(row.Requests, render.NeedsText(types.Requests{r}, nil))
	}
	for _, r := range n.Defaults {
		row.Defaults = append(row.Defaults, render.NeedsText(types.Requests{r}, nil))
	}
	for _, q := range n.Quotas {
		row.Quotas = append(row.Quotas, string(q.Resource)+"="+quotas.Text(q))
	}
	parts := manifest.PartsOf(n.Policies)
	for _, name := range slices.Sorted(maps.Keys(parts)) {
		row.Policies = append(row.Policies, name+"="+string(parts[name]))
	}
	return row
}

// Header returns the columns.
func (namespaceRow) Header() []table.Column {
	return table.Columns("namespace", "keys", "bytes", "pending", "priority", "accumulate", "(quotas)")
}

// Row returns the cells.
func (r namespaceRow) Row() []string {
	b := r.Budget
	number := func(n int64) string { return strconv.FormatInt(n, 10) }
	return []string{
		r.Name, number(b.Keys), types.Quantity(b.Bytes).Format(types.Memory), number(b.Pending), strconv.Itoa(b.Priority),
		yesNo(b.Accumulate), strings.Join(r.Quotas, " "),
	}
}

// Write writes it as text.
func (r namespaceRow) Write(w io.Writer) error {
	s := render.NewSheet(w)
	s.Line("Namespace", r.Name)
	if r.Revision == 0 {
		s.Line("Settings", "none: the built-in defaults hold")
	}
	if r.Closed != "" {
		s.Line("Closed", "nothing can be added: "+r.Closed)
	}
	b := r.Budget
	s.Line("Keys", fmt.Sprintf("%d of at most %d", r.Used.Keys, b.Keys))
	s.Line("Bytes", fmt.Sprintf("%s of at most %s", render.BytesText(&r.Used.Bytes), types.Quantity(b.Bytes).Format(types.Memory)))
	s.Line("Pending", fmt.Sprintf("%d of at most %d tasks", r.Used.Pending, b.Pending))
	s.Line("Priority", fmt.Sprintf("at most %d", b.Priority))
	s.Line("Accumulate", yesNo(b.Accumulate))
	s.Line("Task sockets", fmt.Sprintf("at most %d requests a second and %d watches on each node", b.Requests, b.Watches))
	s.Line("Defaults of each task", strings.Join(r.Defaults, " "))
	if r.Pids != 0 {
		s.Line("Processes of each task", strconv.Itoa(r.Pids))
	}
	s.Line("Requests of each task", strings.Join(r.Requests, " "))
	s.Line("Quotas", strings.Join(r.Quotas, " "))
	s.Line("Policies", strings.Join(r.Policies, " "))
	return s.End()
}

func yesNo(yes bool) string {
	if yes {
		return "yes"
	}
	return "no"
}
