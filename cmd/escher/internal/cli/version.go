package cli

import (
	"fmt"
	"io"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// versionInfo is what this binary was built of.
type versionInfo struct {
	Version  string `json:"version"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

// newVersion makes the command that says what this binary is.
func newVersion(f *Factory) *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Say what this binary was built of",
		Args:  exactly(),
		RunE: func(*cobra.Command, []string) error {
			v := versionInfo{Version: Version(), Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
			return f.show(v, v.Version, func(w io.Writer) error {
				_, err := fmt.Fprintf(w, "escher %s %s %s\n", v.Version, v.Go, v.Platform)
				return err
			})
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
