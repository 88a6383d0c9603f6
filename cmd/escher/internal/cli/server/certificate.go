package server

import (
	"fmt"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/escher-sched/escher/api/certs"
	"github.com/escher-sched/escher/cmd/escher/internal/cli/cmdutil"
)

const adminCertificateHelp = `Makes a certificate for the HTTP API of a server, for clusters that have no certificate
authority of their own. It is signed by the authority in the directory, which the command
makes if there is none: ca.pem, which clients trust, and ca.key, which stays here.

  escher admin certificate --host escher.example.com --host 10.0.0.1 --out /etc/escher
  escher server --api https://:7421 --api-cert /etc/escher/server.pem --api-key /etc/escher/server.key
  escher login https://escher.example.com:7421 --cacert ca.pem`

// newAdminCertificate returns the command that makes a certificate for a server.
func newAdminCertificate(f *cmdutil.Factory) *cobra.Command {
	var hosts []string
	var out string
	var life time.Duration
	cmd := &cobra.Command{
		Use:   "certificate --host HOST --out DIR",
		Short: "Make a certificate for the HTTP API of a server",
		Long:  adminCertificateHelp,
		Args:  cmdutil.Exactly(),
		RunE: func(*cobra.Command, []string) error {
			now := time.Now()
			authority, err := certs.Open(out, now)
			if err != nil {
				return err
			}
			const cert, key = "server.pem", "server.key"
			if err := authority.Server(out, cert, key, hosts, now, life); err != nil {
				return err
			}
			for _, name := range []string{certs.CAFile, cert, key} {
				fmt.Fprintln(f.Out, filepath.Join(out, name))
			}
			return nil
		},
	}
	set := cmd.Flags()
	set.StringSliceVar(&hosts, "host", nil, "name or address by which clients reach the server; repeat for several")
	set.StringVar(&out, "out", ".", "directory for ca.pem, ca.key, server.pem and server.key")
	set.DurationVar(&life, "life", certs.MaxLife, "how long the certificate is valid")
	return cmd
}
