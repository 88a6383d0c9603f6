package cmdutil

import (
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/escher-sched/escher/api/contexts"
	"github.com/escher-sched/escher/cmd/escher/internal/table"
	"github.com/escher-sched/escher/types"
)

const contextHelp = `A context names a cluster, how it is reached and the namespace to use there. They
are in ~/.config/escher/config.yaml (XDG_CONFIG_HOME), for their owner alone.

  escher context set prod --endpoints https://10.0.0.1:2379 --cacert ca.pem -n team
  escher context use prod        for all commands from now on
  escher ps --context test       for one command; ESCHER_CONTEXT for a shell

What is given for a command by a flag or in the environment comes first.`

// contextRow is a row of a list of contexts.
type contextRow struct {
	Name    string `json:"name"`
	Current bool   `json:"current"`
	contexts.Context
	// Token hides that of the context: it is a secret.
	Token *struct{} `json:"token,omitempty"`
	// Login hides that of the context: it has a secret.
	Login *struct{} `json:"login,omitempty"`
}

// newContextRow returns the row of a context.
func newContextRow(name string, current bool, c contexts.Context) contextRow {
	return contextRow{Name: name, Current: current, Context: c}
}

// Header returns the columns.
func (contextRow) Header() []table.Column {
	return table.Columns("context", "current", "namespace", "cluster", "(cacert)", "(cert)", "(key)", "(servername)")
}

// Row returns the cells.
func (c contextRow) Row() []string {
	current := ""
	if c.Current {
		current = "*"
	}
	cluster := First(c.Server, strings.Join(c.Endpoints, ","), c.Dir)
	return []string{c.Name, current, c.Namespace, cluster, c.CACert, c.Cert, c.Key, c.ServerName}
}

// NewContext returns the commands about contexts.
func NewContext(f *Factory) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "context",
		Short: "Name clusters, and say which one to use",
		Long:  contextHelp,
		Args:  cobra.ArbitraryArgs,
		RunE:  group,
	}
	cmd.AddCommand(contextList(f), contextUse(f), contextSet(f), contextRemove(f), contextShow(f), contextDescribe(f))
	return cmd
}

// group runs a command that only has subcommands.
func group(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return cmd.Help()
	}
	return types.Errorf(types.Invalid, "command: %q is unknown: %s --help lists all", args[0], cmd.CommandPath())
}

func contextList(f *Factory) *cobra.Command {
	return &cobra.Command{
		Use:   "ls",
		Short: "List contexts",
		Long: `Lists contexts; a * marks the one in use.

  escher context ls`,
		Args: Exactly(),
		RunE: func(*cobra.Command, []string) error {
			file, err := contexts.Load(contexts.Path(f.Getenv))
			if err != nil {
				return err
			}
			var rows []contextRow
			for _, name := range file.Names() {
				rows = append(rows, newContextRow(name, name == file.Current, file.Contexts[name]))
			}
			return Print(f, rows)
		},
	}
}

func contextUse(f *Factory) *cobra.Command {
	return &cobra.Command{
		Use:   "use CONTEXT",
		Short: "Make a context the current one",
		Long: `Makes a context the current one.

  escher context use prod`,
		Args: Exactly("CONTEXT"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return contexts.Change(cmd.Context(), contexts.Path(f.Getenv), func(file *contexts.File) error {
				_, err := file.Get(args[0])
				file.Current = args[0]
				return err
			})
		},
	}
}

func contextSet(f *Factory) *cobra.Command {
	use := false
	cmd := &cobra.Command{
		Use:   "set CONTEXT --endpoints HOST:PORT,...|--dir DIR",
		Short: "Create or change a context; the first one becomes the current one",
		Long: `Creates or changes a context. The first one becomes the current one.

  escher context set prod --endpoints https://10.0.0.1:2379 --cacert ca.pem -n team
  escher context set here --dir /var/lib/escher --use`,
		Args: Exactly("CONTEXT"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return contexts.Change(cmd.Context(), contexts.Path(f.Getenv), func(file *contexts.File) error {
				if err := f.setContext(cmd, file, args[0]); err != nil {
					return err
				}
				if use {
					file.Current = args[0]
				}
				return nil
			})
		},
	}
	cmd.Flags().BoolVar(&use, "use", false, "make it the current one")
	return cmd
}

// setContext changes a context by the flags.
func (f *Factory) setContext(cmd *cobra.Command, file *contexts.File, name string) error {
	if err := types.ValidateName("context", name); err != nil {
		return err
	}
	c := file.Contexts[name]
	given := func(flag string) bool { return cmd.Flags().Changed(flag) }
	if given("server") {
		return types.Errorf(types.Invalid, "server: needs a token, too: use escher login %s --name %s", f.Given.Server, name)
	}
	if given("endpoints") && given("dir") {
		return types.Errorf(types.Invalid, "endpoints, dir: both are given: give one of them")
	}
	if given("endpoints") {
		c.Endpoints, c.Dir, c.Server, c.Token, c.Login = f.Given.Endpoints, "", "", "", nil
	}
	for flag, x := range map[string]struct {
		to   *string
		from string
		path bool
	}{
		"cacert": {&c.CACert, f.Given.CACert, true}, "cert": {&c.Cert, f.Given.Cert, true},
		"key": {&c.Key, f.Given.Key, true}, "servername": {&c.ServerName, f.Given.ServerName, false},
		"dir": {&c.Dir, f.Given.Dir, true}, "namespace": {&c.Namespace, f.Given.Namespace, false},
	} {
		if !given(flag) {
			continue
		}
		*x.to = x.from
		if x.path && x.from != "" {
			abs, err := filepath.Abs(x.from)
			if err != nil {
				return types.Errorf(types.Invalid, "%s: %q: %w: give an absolute path", flag, x.from, err)
			}
			*x.to = abs
		}
	}
	if given("dir") {
		c.Endpoints, c.Server, c.Token, c.Login = nil, "", "", nil
	}
	if err := checkContext(c); err != nil {
		return err
	}
	if len(file.Contexts) == 0 {
		file.Current = name
	}
	file.Contexts[name] = c
	return nil
}

// checkContext checks a context without the cluster.
func checkContext(c contexts.Context) error {
	if c.Namespace != "" {
		if err := types.ValidateName("namespace", c.Namespace); err != nil {
			return err
		}
	}
	if c.Server != "" {
		return nil
	}
	if len(c.Endpoints) == 0 && c.Dir == "" {
		return types.Errorf(types.Invalid, "context: says of no cluster where it is: give --endpoints or --dir, or use escher login")
	}
	if len(c.Endpoints) == 0 {
		return nil
	}
	_, err := c.Config()
	return err
}

func contextRemove(f *Factory) *cobra.Command {
	return &cobra.Command{
		Use:   "rm CONTEXT",
		Short: "Delete a context",
		Long: `Deletes a context. The cluster stays as it is.

  escher context rm here`,
		Args: Exactly("CONTEXT"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return contexts.Change(cmd.Context(), contexts.Path(f.Getenv), func(file *contexts.File) error {
				if _, err := file.Get(args[0]); err != nil {
					return err
				}
				delete(file.Contexts, args[0])
				if file.Current == args[0] {
					file.Current = ""
					f.Tell("no context is in use now: escher context use takes another")
				}
				return nil
			})
		},
	}
}

func contextShow(f *Factory) *cobra.Command {
	return &cobra.Command{
		Use:   "show",
		Short: "Show which cluster and namespace commands use, and why",
		Long: `Shows which cluster and namespace commands use, and why.

  escher context show`,
		Args: Exactly(),
		RunE: func(*cobra.Command, []string) error {
			place, err := f.Place()
			if err != nil {
				return err
			}
			if place.Server == "" && len(place.Endpoints) == 0 {
				dir, err := f.Dir()
				if err != nil {
					return err
				}
				place.Dir = string(dir)
			}
			row := contextRow{Name: place.Context, Context: contexts.Context{Server: place.Server, Address: place.Address, Dir: place.Dir, Namespace: f.Namespace()}}
			row.Current = row.Name != ""
			return f.Show(row, row.Name, row.write)
		},
	}
}

// contextDescribe describes a context, whether it is in use or not.
func contextDescribe(f *Factory) *cobra.Command {
	return &cobra.Command{
		Use:   "describe CONTEXT",
		Short: "Show which cluster and namespace a context names",
		Long: `Shows which cluster and namespace a context names.

  escher context describe prod`,
		Args: Exactly("CONTEXT"),
		RunE: func(_ *cobra.Command, args []string) error {
			file, err := contexts.Load(contexts.Path(f.Getenv))
			if err != nil {
				return err
			}
			c, err := file.Get(args[0])
			if err != nil {
				return err
			}
			row := newContextRow(args[0], args[0] == file.Current, c)
			return f.Show(row, row.Name, row.write)
		},
	}
}

// write writes the context as text.
func (c contextRow) write(w io.Writer) error {
	for _, line := range [][2]string{
		{"context", First(c.Name, "(none: by flags, environment or default)")}, {"cluster", First(c.Server, strings.Join(c.Endpoints, ","), c.Dir)},
		{"namespace", First(c.Namespace, "(that of the command)")}, {"cacert", c.CACert}, {"cert", c.Cert}, {"key", c.Key}, {"servername", c.ServerName},
	} {
		if line[1] == "" {
			continue
		}
		if _, err := fmt.Fprintf(w, "%-10s %s\n", line[0]+":", line[1]); err != nil {
			return err
		}
	}
	return nil
}
