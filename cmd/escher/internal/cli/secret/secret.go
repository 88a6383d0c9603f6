// Package secret holds the commands about secrets.
package secret

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/escher-sched/escher/api/client"
	"github.com/escher-sched/escher/api/document"
	"github.com/escher-sched/escher/api/secrets"
	"github.com/escher-sched/escher/cmd/escher/internal/cli/cmdutil"
	"github.com/escher-sched/escher/cmd/escher/internal/cli/render"
	"github.com/escher-sched/escher/cmd/escher/internal/table"
	"github.com/escher-sched/escher/types"
	"github.com/escher-sched/escher/types/issued"
)

const secretHelp = `Keeps passwords and keys for tasks. Servers seal the values; no command shows them. A task
names a secret in its file, and gets the values as files or as variables.

  escher secret set db user=ann password=@db.password
  escher secret ls
  escher secret rm db

In the file of a task:

  secrets:
    - {name: db, dir: /run/secrets/db}
    - {name: db, env: {DB_USER: user}}`

// NewSecret returns the commands about secrets.
func NewSecret(f *cmdutil.Factory) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "secret",
		Short: "Keep passwords and keys for tasks",
		Long:  secretHelp,
		Args:  cmdutil.Exactly(),
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newSet(f), newLs(f), newRm(f))
	return cmd
}

// connect returns a client of a server; the caller closes it. Precondition: the cluster is reached by etcd,
// which has no key for secrets.
func connect(ctx context.Context, f *cmdutil.Factory) (*client.Client, error) {
	place, err := f.FreshPlace(ctx)
	if err != nil {
		return nil, err
	}
	if f.InTask() || place.Server == "" && len(place.Endpoints) > 0 {
		return nil, types.Errorf(types.Precondition, "secret: needs a server: only servers have the key that seals secrets: give --server, or log in with escher login")
	}
	if place.Server == "" { // escher dev
		dir, err := f.Dir()
		if err != nil {
			return nil, err
		}
		place.Server = dir.APISocket()
	}
	return client.New(client.Config{Server: place.Server, CACert: place.CACert, Token: place.Token})
}

func newSet(f *cmdutil.Factory) *cobra.Command {
	stdin := ""
	cmd := &cobra.Command{
		Use:   "set NAME KEY=VALUE|KEY=@FILE...",
		Short: "Set the values of a secret",
		Long: `Sets the values of a secret, in place of all values that it had. Give a value by a file or
by the input: other users of this machine can see the arguments of a command. Files and
the input are taken as they are, with the last line break.

  escher secret set db user=ann password=@db.password
  escher secret set tls tls.crt=@server.pem tls.key=@server.key -n web
  printf sesame | escher secret set db --stdin password

Running tasks keep the values that they have, until a restart.`,
		Args: cmdutil.AtLeastOne("NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			values, err := parse(args[1:], stdin, f.In)
			if err != nil {
				return err
			}
			if err := secrets.Validate(args[0], values); err != nil { // before anything is sent
				return err
			}
			c, err := connect(cmd.Context(), f)
			if err != nil {
				return err
			}
			defer c.Close()
			if err := c.Do(cmd.Context(), http.MethodPut, f.Path("secrets", args[0]), map[string]any{"base64": values}, nil); err != nil {
				return err
			}
			fmt.Fprintln(f.Out, args[0])
			return nil
		},
	}
	cmd.Flags().StringVar(&stdin, "stdin", "", "name of a value to read from the input")
	return cmd
}

// parse returns the values that arguments give, and the one that the input has. No error quotes a value.
func parse(args []string, stdin string, in io.Reader) (map[string][]byte, error) {
	values := make(map[string][]byte)
	add := func(key string, value []byte) error {
		if _, twice := values[key]; twice {
			return types.Errorf(types.Invalid, "value: %s is given twice: drop one", types.Cut(key, types.MaxName))
		}
		values[key] = value
		return nil
	}
	for i, arg := range args {
		key, text, ok := strings.Cut(arg, "=")
		if !ok {
			return nil, types.Errorf(types.Invalid, "value: argument %d has no =: write KEY=@FILE or KEY=VALUE, or use --stdin KEY", i+2)
		}
		value := []byte(text)
		if path, ok := strings.CutPrefix(text, "@"); ok {
			file, err := os.Open(path)
			if err != nil {
				return nil, types.Errorf(types.Invalid, "value: %s: %w: name a file, or use --stdin for a value that begins with @", types.Cut(key, types.MaxName), err)
			}
			value, err = read(file)
			file.Close()
			if err != nil {
				return nil, types.Errorf(types.Invalid, "value: %s: %w: name a file", types.Cut(key, types.MaxName), err)
			}
		}
		if err := add(key, value); err != nil {
			return nil, err
		}
	}
	if stdin == "" {
		return values, nil
	}
	value, err := read(in)
	if err != nil {
		return nil, types.Errorf(types.Invalid, "stdin: %w: pass the value as input", err)
	}
	return values, add(stdin, value)
}

// read reads a value, and a byte beyond the longest one.
func read(r io.Reader) ([]byte, error) { return io.ReadAll(io.LimitReader(r, types.MaxSecretValue+1)) }

// row is a row of a list of secrets.
type row struct {
	document.Secret
	now time.Time
}

// Header returns the columns.
func (row) Header() []table.Column {
	return table.Columns("name", "values", "bytes", "set", "(user)", "(key)")
}

// Row returns the cells.
func (r row) Row() []string {
	names, sum := make([]string, len(r.Entries)), int64(0)
	for i, e := range r.Entries {
		names[i] = e.Name
		sum += e.Bytes
	}
	return []string{r.Name, strings.Join(names, ","), fmt.Sprint(sum), render.When(r.Set.UnixNano(), r.now), issued.Text(r.User), r.Key}
}

func newLs(f *cmdutil.Factory) *cobra.Command {
	return &cobra.Command{
		Use:   "ls",
		Short: "List secrets, without their values",
		Long: `Lists the secrets of the namespace: the names and the sizes of their values, and when they
were set.

  escher secret ls -o wide`,
		Args: cmdutil.Exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := connect(cmd.Context(), f)
			if err != nil {
				return err
			}
			defer c.Close()
			all, err := list(cmd.Context(), f, c)
			if err != nil {
				return err
			}
			return cmdutil.Print(f, all)
		},
	}
}

// list lists the secrets of the namespace.
func list(ctx context.Context, f *cmdutil.Factory, c *client.Client) ([]row, error) {
	all, err := cmdutil.Pages[document.Secret](ctx, c, f.Path("secrets"), nil)
	rows := make([]row, len(all))
	for i, s := range all {
		rows[i] = row{s, time.Now()}
	}
	return rows, err
}

func newRm(f *cmdutil.Factory) *cobra.Command {
	return &cobra.Command{
		Use:   "rm NAME...",
		Short: "Remove secrets",
		Long: `Removes secrets. Running tasks keep the values that they have; tasks that start later fail.

  escher secret rm db`,
		Args: cmdutil.AtLeastOne("NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := connect(cmd.Context(), f)
			if err != nil {
				return err
			}
			defer c.Close()
			for _, name := range args {
				if err := c.Do(cmd.Context(), http.MethodDelete, f.Path("secrets", name), nil, nil); err != nil {
					return err
				}
				fmt.Fprintln(f.Out, name)
			}
			return nil
		},
	}
}
