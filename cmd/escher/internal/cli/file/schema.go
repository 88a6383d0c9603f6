package file

import (
	"github.com/spf13/cobra"

	"github.com/escher-sched/escher/api/library"
	"github.com/escher-sched/escher/cmd/escher/internal/cli/cmdutil"
	"github.com/escher-sched/escher/controlplane/manifest"
)

// NewSchema returns the command that prints the schema of files.
func NewSchema(f *cmdutil.Factory) *cobra.Command {
	return &cobra.Command{
		Use:   "schema",
		Short: "Print the JSON Schema of the files for submit, apply and plan",
		Long: `Prints the JSON Schema of the files for submit, apply and plan, by which editors complete
and check them.

  escher schema > escher.schema.json`,
		Args: cmdutil.Exactly(),
		RunE: func(*cobra.Command, []string) error {
			text, err := manifest.Schema(library.KnownPolicies())
			if err == nil {
				_, err = f.Out.Write(text)
			}
			return err
		},
	}
}
