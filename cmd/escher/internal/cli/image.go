package cli

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/escher-sched/escher/cmd/escher/internal/dev"
	"github.com/escher-sched/escher/nodeagent/containerd"
	"github.com/escher-sched/escher/nodeagent/image"
	"github.com/escher-sched/escher/types"
)

const imageHelp = `Makes an image of static binaries, without docker or a registry, and gives it to
the nodes of the escher dev on this machine. Each binary is in /bin, under its own
name; the first one is what runs when a task names no command.

  CGO_ENABLED=0 go build -o train ./train
  escher image escher.local/train:latest ./train
  escher run escher.local/train:latest -- train --epochs 3`

// newImage makes the command that makes images.
func newImage(f *Factory) *cobra.Command {
	return &cobra.Command{
		Use:   "image NAME BINARY...",
		Short: "Make an image of static binaries",
		Long:  imageHelp,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) < 2 {
				return types.Errorf(types.Invalid, "BINARY: is missing: %s", usage(cmd))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			spec := image.Spec{Name: args[0], Files: make(map[string]string)}
			for i, path := range args[1:] {
				inside := "/bin/" + filepath.Base(path)
				spec.Files[inside] = path
				if i == 0 {
					spec.Entrypoint = []string{inside}
				}
			}
			if err := importImage(cmd.Context(), f, spec); err != nil {
				return err
			}
			fmt.Fprintln(f.Out, spec.Name)
			return nil
		},
	}
}

// binaryImage is an image of one binary, named by what is in it.
func binaryImage(path string) (image.Spec, error) {
	file, err := os.Open(path)
	if err != nil {
		return image.Spec{}, types.Errorf(types.Invalid, "binary: %w: give the path of a static binary", err)
	}
	defer file.Close()
	hash := sha256.New()
	if _, err := io.Copy(hash, file); err != nil {
		return image.Spec{}, types.Errorf(types.Invalid, "binary: %w: give the path of a static binary", err)
	}
	base := filepath.Base(path)
	name := containerd.LocalRegistry + imageName(base) + ":" + hex.EncodeToString(hash.Sum(nil)[:6])
	return image.Spec{Name: name, Files: map[string]string{inImage(path): path}}, nil
}

// inImage is where a binary is in the image that is made of it.
func inImage(path string) string { return "/bin/" + filepath.Base(path) }

// imageName makes a file's name one that an image can have.
func imageName(base string) string {
	name := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			return r
		}
		return '-'
	}, strings.ToLower(base))
	if name = strings.Trim(name, "-"); name == "" {
		return "binary"
	}
	return name
}

// importImage gives an image to the runtime of escher dev.
func importImage(ctx context.Context, f *Factory, spec image.Spec) (err error) {
	dir, err := f.Dir()
	if err != nil {
		return err
	}
	info, err := dir.Info()
	if err != nil {
		return err
	}
	if info.Containerd == "" {
		return types.Errorf(types.Precondition, "import image %s: this cluster runs no containers", spec.Name)
	}
	images, err := dev.Images(info)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, images.Close()) }()
	r, w := io.Pipe()
	go func() { w.CloseWithError(image.Write(w, spec)) }()
	_, err = images.Load(ctx, r)
	return errors.Join(err, r.Close())
}
