package cmdutil

import (
	"runtime/debug"
)

// Version returns the version of the module, or its commit.
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
