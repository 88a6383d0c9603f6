// Package secret holds the commands about secrets.
package secret

import (
	"bufio"
	"bytes"
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
	given "github.com/escher-sched/escher/nodeagent/secrets"
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
	stdin, registry, user := "", "", ""
	cmd := &cobra.Command{
		Use:   "set [SECRET KEY=VALUE|KEY=@FILE...]",
		Short: "Set the values of a secret",
		Long: `Sets the values of a secret, in place of all values that it had. Give a value by a file or
by the input: other users of this machine can see the arguments of a command. Files and
the input are taken as they are, with the last line break.

  escher secret set db user=ann password=@db.password
  escher secret set tls tls.crt=@server.pem tls.key=@server.key -n web
  printf sesame | escher secret set db --stdin password

Running tasks keep the values that they have, until a restart.

With --registry, the input has the password of a user of a registry. The tasks of the
namespace pull the images of that registry with it. The name of the secret follows from
the host: registry-ghcr.io.

  cat ghcr.token | escher secret set --registry ghcr.io --username ann`,
		Args: func(cmd *cobra.Command, args []string) error {
			if cmd.Flags().Changed("registry") {
				return cmdutil.Exactly()(cmd, args)
			}
			if user != "" {
				return types.Errorf(types.Invalid, "username: is given without --registry: give both, or username=%s as a value", types.Cut(user, types.MaxName))
			}
			return cmdutil.AtLeastOne("SECRET")(cmd, args)
		},
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			var name string
			var values map[string][]byte
			if cmd.Flags().Changed("registry") {
				if name, values, err = login(f, registry, user, stdin); err != nil {
					return err
				}
			} else {
				name = args[0]
				if values, err = parse(args[1:], stdin, f.In); err != nil {
					return err
				}
			}
			return set(cmd.Context(), f, name, values)
		},
	}
	cmd.Flags().StringVar(&stdin, "stdin", "", "name of a value to read from the input")
	cmd.Flags().StringVar(&registry, "registry", "", "HOST[:PORT]: set the user and the password for pulls from this registry")
	cmd.Flags().StringVar(&user, "username", "", "user of the registry")
	return cmd
}

// set sets a secret.
func set(ctx context.Context, f *cmdutil.Factory, name string, values map[string][]byte) error {
	if err := secrets.Validate(name, values); err != nil { // before anything is sent
		return err
	}
	c, err := connect(ctx, f)
	if err != nil {
		return err
	}
	defer c.Close()
	if err := c.Do(ctx, http.MethodPut, f.Path("secrets", name), map[string]any{"base64": values}, nil); err != nil {
		return err
	}
	fmt.Fprintln(f.Out, name)
	return nil
}

// login returns the secret of a user of a registry, whose password is the input: a line of a terminal, or all
// of it.
func login(f *cmdutil.Factory, registry, user, stdin string) (string, map[string][]byte, error) {
	name, err := given.LoginName(registry)
	if err != nil {
		return "", nil, err
	}
	if stdin != "" {
		return "", nil, types.Errorf(types.Invalid, "stdin: with --registry, the input is the password: leave it out")
	}
	in := f.In
	if f.InputIsTerminal() == nil {
		f.Tell("paste the password, and press Enter")
		line, _ := bufio.NewReader(io.LimitReader(in, types.MaxSecretValue)).ReadString('\n') // CheckLogin refuses none
		in = strings.NewReader(line)
	}
	password, err := read(in)
	if err != nil {
		return "", nil, types.Errorf(types.Invalid, "password: %w: pass it as input", err)
	}
	password = bytes.TrimRight(password, "\r\n")
	if err := given.CheckLogin(user, string(password)); err != nil {
		return "", nil, types.Errorf(types.Invalid, "%w: give --username USER, and the password as input", err)
	}
	return name, map[string][]byte{given.Username: []byte(user), given.Password: password}, nil
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

// Names returns the names of the secrets of the namespace, for completion: none if they cannot be listed.
func Names(ctx context.Context, f *cmdutil.Factory) []string {
	c, err := connect(ctx, f)
	if err != nil {
		return nil
	}
	defer c.Close()
	all, _ := list(ctx, f, c) // no errors while typing
	names := make([]string, len(all))
	for i, s := range all {
		names[i] = s.Name
	}
	return names
}

func newRm(f *cmdutil.Factory) *cobra.Command {
	return &cobra.Command{
		Use:   "rm SECRET...",
		Short: "Remove secrets",
		Long: `Removes secrets. Running tasks keep the values that they have; tasks that start later fail.

  escher secret rm db`,
		Args: cmdutil.AtLeastOne("SECRET"),
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
