package cmdutil

import (
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/escher-sched/escher/cmd/escher/internal/config"
	"github.com/escher-sched/escher/cmd/escher/internal/table"
	"github.com/escher-sched/escher/types"
)

const contextHelp = `A context names a cluster, how it is reached and the namespace to use there. They
are in ~/.config/escher/config.yaml (XDG_CONFIG_HOME), for their owner alone.

  escher context set prod --endpoints https://10.0.0.1:2379 --cacert ca.pem -n team
  escher context use prod        for all commands from now on
  escher ps --context test       for one command; ESCHER_CONTEXT for a shell

What is given for a command by a flag or in the environment comes first.`

// chosenContext is the context in use.
type chosenContext struct {
	config.Context
	// name is empty if there is none.
	name string
	// flagged reports whether a flag names it.
	flagged bool
}

// context returns the context in use.
func (f *Factory) context() (chosenContext, error) {
	if f.chosen != nil {
		return *f.chosen, nil
	}
	var c chosenContext
	if !f.InTask() {
		file, err := config.Load(config.Path(f.Getenv))
		if err != nil {
			return c, err
		}
		c.name, c.flagged = First(f.ContextName, f.Getenv("ESCHER_CONTEXT"), file.Current), f.ContextName != ""
		if c.name != "" {
			if c.Context, err = file.Get(c.name); err != nil {
				return c, err
			}
		}
	}
	f.chosen = &c
	return c, nil
}

// contextRow is a row of a list of contexts.
type contextRow struct {
	Name    string `json:"name"`
	Current bool   `json:"current"`
	config.Context
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
	cluster := First(strings.Join(c.Endpoints, ","), c.Dir)
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
	cmd.AddCommand(contextList(f), contextUse(f), contextSet(f), contextRemove(f), contextShow(f))
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
		Args:  Exactly(),
		RunE: func(*cobra.Command, []string) error {
			file, err := config.Load(config.Path(f.Getenv))
			if err != nil {
				return err
			}
			var rows []contextRow
			for _, name := range file.Names() {
				rows = append(rows, contextRow{name, name == file.Current, file.Contexts[name]})
			}
			return Print(f, rows)
		},
	}
}

// changeContexts reads the file, changes it and writes it.
func changeContexts(f *Factory, change func(*config.File) error) error {
	path := config.Path(f.Getenv)
	file, err := config.Load(path)
	if err != nil {
		return err
	}
	if err := change(&file); err != nil {
		return err
	}
	return file.Save(path)
}

func contextUse(f *Factory) *cobra.Command {
	return &cobra.Command{
		Use:   "use CONTEXT",
		Short: "Make a context the current one",
		Args:  Exactly("CONTEXT"),
		RunE: func(_ *cobra.Command, args []string) error {
			return changeContexts(f, func(file *config.File) error {
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
		Args:  Exactly("CONTEXT"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return changeContexts(f, func(file *config.File) error {
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
func (f *Factory) setContext(cmd *cobra.Command, file *config.File, name string) error {
	if err := types.ValidateName("context", name); err != nil {
		return err
	}
	c := file.Contexts[name]
	given := func(flag string) bool { return cmd.Flags().Changed(flag) }
	if given("endpoints") && given("dir") {
		return types.Errorf(types.Invalid, "endpoints, dir: both are given: give one of them")
	}
	if given("endpoints") {
		c.Endpoints, c.Dir = f.flagAddress.Endpoints, ""
	}
	for flag, x := range map[string]struct {
		to   *string
		from string
		path bool
	}{
		"cacert": {&c.CACert, f.flagAddress.CACert, true}, "cert": {&c.Cert, f.flagAddress.Cert, true},
		"key": {&c.Key, f.flagAddress.Key, true}, "servername": {&c.ServerName, f.flagAddress.ServerName, false},
		"dir": {&c.Dir, f.DirFlag, true}, "namespace": {&c.Namespace, f.NamespaceFlag, false},
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
		c.Endpoints = nil
	}
	if err := checkContext(c); err != nil {
		return err
	}
	if len(file.Contexts) == 0 {
		file.Contexts, file.Current = make(map[string]config.Context), name
	}
	file.Contexts[name] = c
	return nil
}

// checkContext checks a context without the cluster.
func checkContext(c config.Context) error {
	if c.Namespace != "" {
		if err := types.ValidateName("namespace", c.Namespace); err != nil {
			return err
		}
	}
	if len(c.Endpoints) == 0 && c.Dir == "" {
		return types.Errorf(types.Invalid, "context: says of no cluster where it is: give --endpoints or --dir")
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
		Args:  Exactly("CONTEXT"),
		RunE: func(_ *cobra.Command, args []string) error {
			return changeContexts(f, func(file *config.File) error {
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
		Args:  Exactly(),
		RunE: func(*cobra.Command, []string) error {
			place, err := f.Place()
			if err != nil {
				return err
			}
			if len(place.Endpoints) == 0 {
				dir, err := f.Dir()
				if err != nil {
					return err
				}
				place.dir = string(dir)
			}
			row := contextRow{Name: place.context, Context: config.Context{Address: place.Address, Dir: place.dir, Namespace: f.Namespace()}}
			row.Current = row.Name != ""
			return f.Show(row, row.Name, func(w io.Writer) error {
				fmt.Fprintf(w, "context:   %s\n", First(row.Name, "(none: by flags, environment or default)"))
				fmt.Fprintf(w, "cluster:   %s\n", First(strings.Join(row.Endpoints, ","), row.Dir))
				_, err := fmt.Fprintf(w, "namespace: %s\n", row.Namespace)
				return err
			})
		},
	}
}
