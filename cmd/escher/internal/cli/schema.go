package cli

import (
	"github.com/spf13/cobra"

	"github.com/escher-sched/escher/controlplane/manifest"
)

// newSchema makes the command that prints the schema of what is submitted.
func newSchema(f *Factory) *cobra.Command {
	return &cobra.Command{
		Use:   "schema",
		Short: "Print the JSON Schema of the files for submit, apply and plan",
		Args:  exactly(),
		RunE: func(*cobra.Command, []string) error {
			text, err := manifest.Schema(knownPolicies())
			if err == nil {
				_, err = f.Out.Write(text)
			}
			return err
		},
	}
}
