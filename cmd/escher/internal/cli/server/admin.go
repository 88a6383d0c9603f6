package server

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/escher-sched/escher/cmd/escher/internal/cli/cmdutil"
	"github.com/escher-sched/escher/controlplane/identity"
)

// NewAdmin returns the group of commands for the administrator of a cluster.
func NewAdmin(f *cmdutil.Factory) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "admin",
		Short: "Administer a cluster",
		Long:  "Administers a cluster.\n\n  escher admin restored      after etcd was restored from a backup\n  escher admin certificate   a certificate for the HTTP API of a server\n  escher admin secrets-key   the key that seals secrets",
		Args:  cmdutil.Exactly(),
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newAdminRestored(f), newAdminCertificate(f), newAdminSecretsKey(f))
	return cmd
}

const adminRestoredHelp = `Tells every server and agent that etcd was restored from a backup. Agents then end,
within one --ttl, everything that they run: the restored state may not know it. Servers
decide again 30 s later. Tasks that were bound in the backup wait for their next attempt.

Servers detect a restored snapshot by themselves. They cannot detect that the files of
etcd were copied back: then run this command as soon as etcd serves, before you start the
servers.

  escher admin restored`

// newAdminRestored returns the command that begins a new epoch.
func newAdminRestored(f *cmdutil.Factory) *cobra.Command {
	return &cobra.Command{
		Use:   "restored",
		Short: "Tell the cluster that etcd was restored from a backup",
		Long:  adminRestoredHelp,
		Args:  cmdutil.Exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			store, err := f.Etcd(cmd.Context())
			if err != nil {
				return err
			}
			id, err := identity.MarkRestored(cmd.Context(), store)
			if err != nil {
				return err
			}
			_, err = fmt.Fprintln(f.Out, id)
			return err
		},
	}
}
