package cli

import (
	"fmt"
	"io"
	"runtime"

	"github.com/spf13/cobra"

	"github.com/escher-sched/escher/cmd/escher/internal/cli/cmdutil"
)

// versionInfo describes the build of this binary.
type versionInfo struct {
	Version  string `json:"version"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

// newVersion returns the command that prints the version.
func newVersion(f *cmdutil.Factory) *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Long: `Prints the version of escher, of Go, and the platform it was built for.

  escher version
  escher version -o json`,
		Args: cmdutil.Exactly(),
		RunE: func(*cobra.Command, []string) error {
			v := versionInfo{Version: cmdutil.Version(), Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
			return f.Show(v, v.Version, func(w io.Writer) error {
				_, err := fmt.Fprintf(w, "escher %s %s %s\n", v.Version, v.Go, v.Platform)
				return err
			})
		},
	}
}
