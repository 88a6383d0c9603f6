package file

import (
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/escher-sched/escher/api/library"
	"github.com/escher-sched/escher/cmd/escher/internal/cli/cmdutil"
	"github.com/escher-sched/escher/cmd/escher/internal/convert"
	"github.com/escher-sched/escher/controlplane/manifest"
	"github.com/escher-sched/escher/types"
)

// AddFile adds the flag that names a file.
func AddFile(cmd *cobra.Command, file *string) {
	cmd.Flags().StringVarP(file, "file", "f", "", "YAML or JSON file; - reads the input")
}

// ReadManifest reads and checks a file of objects.
func ReadManifest(f *cmdutil.Factory, path string) ([]manifest.Document, error) {
	in, name := f.In, "input"
	switch path {
	case "":
		return nil, types.Errorf(types.Invalid, "file: is missing: name one with -f, - is the input")
	case "-":
	default:
		file, err := os.Open(path)
		if err != nil {
			return nil, types.Errorf(types.Invalid, "file: %w: name a YAML or JSON file", err)
		}
		defer file.Close()
		in, name = file, path
	}
	text, err := io.ReadAll(io.LimitReader(in, maxManifest+1))
	if err != nil {
		return nil, types.Errorf(types.Invalid, "file: %w: name a YAML or JSON file", err)
	}
	if len(text) > maxManifest {
		return nil, types.Errorf(types.Invalid, "file: %s has more than %d MiB: split it", name, maxManifest>>20)
	}
	docs, err := manifest.Parse(name, text, library.KnownPolicies())
	if format := convert.Looks(text); err != nil && format != "" {
		return nil, types.Errorf(types.Invalid, "%s: this is a %s: escher convert %s makes a file of Escher of it", name, format, path)
	}
	for _, d := range docs {
		for _, notice := range d.Notices {
			f.Tell("%s:%d: %s", name, notice.Line, notice.Text)
		}
	}
	return docs, err
}

// maxManifest is the most bytes in a file.
const maxManifest = 64 << 20
