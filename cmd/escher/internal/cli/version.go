package cli

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// newVersion makes the command that says what this binary is.
func newVersion(f *Factory) *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Say what this binary was built of",
		Args:  exactly(),
		RunE: func(*cobra.Command, []string) error {
			_, err := fmt.Fprintf(f.Out, "escher %s %s %s/%s\n", Version(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
			return err
		},
	}
}

// Version returns the version of the module, or the commit it was built from.
func Version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" && (info.Main.Version == "" || info.Main.Version == "(devel)") {
			return s.Value[:min(12, len(s.Value))]
		}
	}
	return info.Main.Version
}
