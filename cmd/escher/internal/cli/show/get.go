package show

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/escher-sched/escher/cmd/escher/internal/cli/cmdutil"
	"github.com/escher-sched/escher/cmd/escher/internal/table"
	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/types"
	"github.com/escher-sched/escher/types/schema"
)

const getHelp = `Prints stored values, with the field names of types/schema/escher.proto: the key, its
revisions, the kind of value, and the value as YAML. Times and amounts are as stored, a
comment says what they mean. A value that cannot be read is printed in hexadecimal, with
the reason. Tokens are left out, and so are the values of environment variables, unless
--env is given.

KEY is a key below /escher/, which may be left out; docs/keyspace.md lists all. With
--prefix it is the beginning of keys, and the command prints the first of them.

  escher get --raw /escher/nodes/node-1
  escher get --raw alive/node-1 -o json
  escher get --raw --prefix nodes/ --limit 5
  escher get --raw --prefix nodes/ -o name`

// gets says which keys to print.
type gets struct {
	raw, prefix, env bool
	limit            int
}

// NewGet returns the command that prints stored values.
func NewGet(f *cmdutil.Factory) *cobra.Command {
	var g gets
	cmd := &cobra.Command{
		Use:   "get KEY --raw",
		Short: "Print the value that is stored under a key",
		Long:  getHelp,
		Args:  cmdutil.Exactly("KEY"),
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case !g.raw:
				return types.Errorf(types.Invalid, "raw: is missing: get prints stored values alone: write escher get --raw KEY; for objects escher ps, escher jobs or escher nodes")
			case g.limit <= 0:
				return types.Errorf(types.Invalid, "limit: %d is no number of keys: give 1 or more", g.limit)
			}
			return g.print(cmd.Context(), f, args[0])
		},
	}
	flags := cmd.Flags()
	flags.BoolVar(&g.raw, "raw", false, "print the value as stored")
	flags.BoolVar(&g.prefix, "prefix", false, "print all keys that begin with KEY, up to --limit")
	flags.IntVar(&g.limit, "limit", 20, "with --prefix: print at most this many")
	flags.BoolVar(&g.env, "env", false, "print the values of environment variables")
	return cmd
}

// print prints the values of a key, or of keys with a prefix.
func (g gets) print(ctx context.Context, f *cmdutil.Factory, key string) error {
	if !strings.HasPrefix(key, "/") {
		key = controlplane.Root + key
	}
	messages, err := schema.Messages(ctx)
	if err != nil {
		return types.Errorf(types.Internal, "read the schema: %w", err)
	}
	store, err := f.Store(ctx)
	if err != nil {
		return err
	}
	opts := controlplane.ListOptions{Key: key}
	if g.prefix {
		opts = controlplane.ListOptions{Prefix: key, Limit: g.limit}
	}
	page, err := store.List(ctx, opts)
	if err != nil {
		return err
	}
	if len(page.KVs) == 0 {
		return types.Errorf(types.NotFound, "get %s: there is no such key: escher get --raw --prefix %s lists those there are", key, key[:strings.LastIndexByte(strings.TrimSuffix(key, "/"), '/')+1])
	}
	all := make([]storedValue, len(page.KVs))
	for i, kv := range page.KVs {
		all[i] = decode(messages, kv, g.env)
	}
	if page.More {
		defer f.Tell("there are more keys: raise --limit, or give more of the prefix")
	}
	if !g.prefix {
		return f.Show(all[0], key, all[0].text)
	}
	if f.Format.Encoded() {
		return table.EncodeList(f.Out, f.Format, all)
	}
	for i, v := range all {
		if i > 0 && f.Format != table.Name {
			fmt.Fprintln(f.Out, "---")
		}
		if err := f.Show(v, v.Key, v.text); err != nil {
			return err
		}
	}
	return nil
}

// storedValue is a key with its value.
type storedValue struct {
	Key string `json:"key"`
	// Kind is the message of the schema; empty for a key that Escher does not use.
	Kind string `json:"kind,omitempty"`
	// Revision is that of the last change, Created that of the creation.
	Revision int64  `json:"revision"`
	Created  int64  `json:"created"`
	Lease    string `json:"lease,omitempty"`
	// Value has the fields of the value.
	Value map[string]any `json:"value,omitempty"`
	// Problem says why the value counts as absent, or what of it this version does not know. Hex is then all of
	// it, unless it may have secrets.
	Problem string `json:"problem,omitempty"`
	Hex     string `json:"hex,omitempty"`

	message protoreflect.Message
}

// text writes a value as YAML, with comments.
func (v storedValue) text(w io.Writer) error {
	fmt.Fprintf(w, "# %s: %s\n# revision %d, created at revision %d", v.Key, cmp.Or(v.Kind, "unknown"), v.Revision, v.Created)
	if v.Lease != "" {
		fmt.Fprintf(w, ", on lease %s", v.Lease)
	}
	fmt.Fprintln(w)
	if v.Problem != "" {
		fmt.Fprintf(w, "# %s\n", table.Line(v.Problem))
	}
	for hex := v.Hex; hex != ""; {
		n := min(len(hex), 64)
		fmt.Fprintf(w, "# %s\n", hex[:n])
		hex = hex[n:]
	}
	if v.message == nil {
		return nil
	}
	return writeYAML(w, v.message)
}
