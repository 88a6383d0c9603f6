package images

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/spf13/cobra"

	"github.com/escher-sched/escher/cmd/escher/internal/cli/cmdutil"
	"github.com/escher-sched/escher/nodeagent/runtime/image"
	"github.com/escher-sched/escher/types"
)

const imageMakeHelp = `Makes an image of static binaries, without docker or a registry, and loads it onto the
nodes. Each binary is in /bin, under its own name. The first one runs if a task names no
command. With --entrypoint it runs in any case, and the command of a task is its arguments.
With --applets a binary of many programs, such as busybox, is in /bin under their names
too, so that an image has sh, ls, sleep and so on.

  CGO_ENABLED=0 go build -o train ./train
  escher image make escher.local/train:latest ./train
  escher run escher.local/train:latest -- train --epochs 3
  escher image make --entrypoint escher.local/trainer:latest ./train
  escher run escher.local/trainer:latest -- --epochs 3
  escher image make --applets busybox escher.local/bb:1 /usr/bin/busybox
  escher run escher.local/bb:1 -- echo hello`

func newImageMake(f *cmdutil.Factory) *cobra.Command {
	var nodes nodeFlags
	var made making
	cmd := &cobra.Command{
		Use:   "make NAME BINARY...",
		Short: "Make an image of static binaries, and load it onto nodes",
		Long:  imageMakeHelp,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) < 2 {
				return types.Errorf(types.Invalid, "BINARY: is missing: %s", cmdutil.Usage(cmd))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			spec, err := made.spec(cmd.Context(), args[0], args[1:])
			if err != nil {
				return err
			}
			names, err := nodes.names(cmd.Context(), f)
			if err != nil {
				return err
			}
			if err := makeImage(cmd.Context(), f, names, spec); err != nil {
				return err
			}
			fmt.Fprintln(f.Out, spec.Name)
			return nil
		},
	}
	nodes.Add(cmd)
	cmd.Flags().BoolVar(&made.entrypoint, "entrypoint", false, "make the first binary the entry point of the image: commands of tasks are its arguments")
	cmd.Flags().StringVar(&made.applets, "applets", "", "the `BINARY` that contains many programs, by its file name: busybox. It runs here once, with --list, to name them")
	return cmd
}

// making is how to make an image of binaries.
type making struct {
	entrypoint bool
	// applets is the file name of the binary of many programs; empty means none.
	applets string
}

// spec describes the image of some binaries. Invalid: two have the same name, or the one of many
// programs is not among them.
func (m making) spec(ctx context.Context, name string, binaries []string) (image.Spec, error) {
	spec := image.Spec{Name: name, Files: make(map[string]string)}
	for i, path := range binaries {
		inside := InImage(path)
		if other, twice := spec.Files[inside]; twice {
			return spec, types.Errorf(types.Invalid, "BINARY: %s and %s have the same name: rename one", other, path)
		}
		spec.Files[inside] = path
		switch {
		case i == 0 && m.entrypoint:
			spec.Entrypoint = []string{inside}
		case i == 0:
			spec.Command = []string{inside}
		}
	}
	if m.applets == "" {
		return spec, nil
	}
	inside := InImage(m.applets)
	path, ok := spec.Files[inside]
	if !ok {
		return spec, types.Errorf(types.Invalid, "applets: %s is not among the binaries: give its path as a BINARY, too", m.applets)
	}
	names, err := appletsOf(ctx, path)
	spec.Links = make(map[string]string)
	for _, applet := range names {
		if link := InImage(applet); spec.Files[link] == "" {
			spec.Links[link] = inside
		}
	}
	return spec, err
}

// applet matches the name of a program in a list.
var applet = regexp.MustCompile(`^[A-Za-z0-9[][-A-Za-z0-9_.+[]*$`)

// appletsOf runs a binary of many programs to list their names. Invalid: it lists none.
func appletsOf(ctx context.Context, path string) ([]string, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, types.Errorf(types.Invalid, "applets: %w: give the path of a static binary", err)
	}
	out, err := exec.CommandContext(ctx, path, "--list").Output()
	if err != nil {
		return nil, types.Errorf(types.Invalid, "applets: %s --list: %w: give a binary that lists its programs, as busybox does", path, err)
	}
	names := strings.Fields(string(out))
	for _, name := range names {
		if !applet.MatchString(name) {
			return nil, types.Errorf(types.Invalid, "applets: %s --list names %q, which is no program: give a binary that lists its programs, as busybox does", path, name)
		}
	}
	if len(names) == 0 {
		return nil, types.Errorf(types.Invalid, "applets: %s --list names no programs: give a binary that lists its programs, as busybox does", path)
	}
	return names, nil
}
