package server

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/escher-sched/escher/api/secrets"
	"github.com/escher-sched/escher/cmd/escher/internal/cli/cmdutil"
)

const adminSecretsKeyHelp = `Makes the key that seals the secrets of a cluster, in a file that only its owner can read.
Each server needs the same file. Without it, all secrets that it seals are lost: keep a
copy, apart from the backups of etcd.

  escher admin secrets-key --out secrets.key

A file may have several keys, one in each line: the first one seals, and all of them open.`

// newAdminSecretsKey returns the command that makes a key for secrets.
func newAdminSecretsKey(f *cmdutil.Factory) *cobra.Command {
	var out string
	cmd := &cobra.Command{
		Use:   "secrets-key --out FILE",
		Short: "Make the key that seals secrets",
		Long:  adminSecretsKeyHelp,
		Args:  cmdutil.Exactly(),
		RunE: func(*cobra.Command, []string) error {
			if err := secrets.MakeFile(out); err != nil {
				return err
			}
			fmt.Fprintln(f.Out, out)
			return nil
		},
	}
	cmd.Flags().StringVar(&out, "out", "secrets.key", "file for the key, which must not exist yet")
	return cmd
}
