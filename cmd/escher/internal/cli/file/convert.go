package file

import (
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/escher-sched/escher/api/library"
	"github.com/escher-sched/escher/cmd/escher/internal/cli/cmdutil"
	"github.com/escher-sched/escher/cmd/escher/internal/convert"
	"github.com/escher-sched/escher/types"
)

const convertHelp = `Converts a compose file, or a batch script of Slurm with #SBATCH lines, into a file for
submit, plan and apply, and prints it. A line on the error output names each setting
that has no counterpart, and what to do instead; the exit code is 0 all the same.

  escher convert compose.yaml > jobs.yaml
  escher convert --image nvcr.io/nvidia/pytorch:25.10-py3 train.sbatch > train.yaml
  escher plan -f train.yaml`

// NewConvert returns the command that converts files of other systems.
func NewConvert(f *cmdutil.Factory) *cobra.Command {
	in := convert.Input{Env: func(name string) (string, bool) {
		value := f.Getenv(name)
		return value, value != ""
	}}
	cmd := &cobra.Command{
		Use:   "convert FILE",
		Short: "Convert a compose file or a batch script of Slurm",
		Long:  convertHelp,
		Args:  cmdutil.Exactly("FILE"),
		RunE: func(_ *cobra.Command, args []string) error {
			text, notes, err := converted(f, &in, args[0])
			if err != nil {
				return types.Errorf(types.ClassOf(err), "convert: %w", err)
			}
			for _, n := range notes {
				at := in.Name
				if n.Line > 0 {
					at += fmt.Sprintf(":%d", n.Line)
				}
				f.Tell("%s: %s", at, n)
			}
			_, err = f.Out.Write(text)
			return err
		},
	}
	cmd.Flags().StringVar((*string)(&in.Format), "from", "", "compose or sbatch; by default, what the file looks like")
	cmd.Flags().StringVar(&in.Image, "image", "", "the image of a batch script that names none")
	return cmd
}

// converted reads and converts a file; - is the standard input.
func converted(f *cmdutil.Factory, in *convert.Input, name string) ([]byte, []convert.Note, error) {
	in.Name, in.Known = name, library.KnownPolicies()
	dir := filepath.Dir(name)
	in.Read = func(name string) ([]byte, error) {
		if !filepath.IsAbs(name) {
			name = filepath.Join(dir, name)
		}
		return readSome(name)
	}
	var err error
	if name == "-" {
		in.Name = convert.Stdin
		in.Text, err = io.ReadAll(io.LimitReader(f.In, convert.MaxFile+1))
	} else {
		in.Text, err = readSome(name)
	}
	if err != nil {
		return nil, nil, types.Errorf(types.Invalid, "%w: give another file, or - for the input", err)
	}
	return convert.File(*in)
}

// readSome reads a file, up to one byte more than the largest one that can be converted.
func readSome(name string) ([]byte, error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return io.ReadAll(io.LimitReader(file, convert.MaxFile+1))
}
