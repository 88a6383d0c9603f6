// Package images holds the commands about container images: image, pull.
package images

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"

	"github.com/escher-sched/escher/cmd/escher/internal/cli/cmdutil"
	"github.com/escher-sched/escher/cmd/escher/internal/cli/render"
	"github.com/escher-sched/escher/cmd/escher/internal/table"
	"github.com/escher-sched/escher/nodeagent/runtime/image"
	"github.com/escher-sched/escher/nodeagent/serve/nodeapi"
	"github.com/escher-sched/escher/types"
)

const imageHelp = `Images of the nodes. A task runs an image that its node has, and pulls it where it
does not; images of escher.local/ are never pulled: they are given to the nodes.

  escher image load train.tar                           what docker save or an image builder wrote
  escher image make escher.local/train:latest ./train   an image of static binaries, made here
  escher image ls                                       what the nodes have
  escher pull busybox:1.36 --all-nodes                  before it is needed

A node that joins later does not have what was given to the others, except directories sent
by escher run --workdir: nodes fetch these from one another.`

// NewImage returns the commands about images.
func NewImage(f *cmdutil.Factory) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "image",
		Short: "Give images to nodes, list and pull them",
		Long:  imageHelp,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return types.Errorf(types.Invalid, "command: image %q is unknown: use load, make, ls, describe or pull: escher image --help", args[0])
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newImageLoad(f), newImageMake(f), newImageList(f), newImageDescribe(f), NewPull(f))
	return cmd
}

func newImageLoad(f *cmdutil.Factory) *cobra.Command {
	var nodes nodeFlags
	cmd := &cobra.Command{
		Use:   "load FILE",
		Short: "Load the images of an archive (docker save) onto nodes; - reads the input",
		Long: `Loads the images of an archive, such as docker save writes, onto nodes; - reads the input.

  escher image load train.tar
  escher image load train.tar --node node-1`,
		Args: cmdutil.Exactly("FILE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			archive, remove, err := openArchive(f, args[0])
			if err != nil {
				return err
			}
			defer remove()
			names, err := nodes.names(cmd.Context(), f)
			if err != nil {
				return err
			}
			images, err := distribute(cmd.Context(), f, names, archive)
			for _, x := range images {
				fmt.Fprintln(f.Out, x.Name)
			}
			return err
		},
	}
	nodes.Add(cmd)
	return cmd
}

// openArchive returns the path of an archive. It stores standard input in a file, because it is
// sent several times.
func openArchive(f *cmdutil.Factory, name string) (path string, remove func(), err error) {
	if name != "-" {
		info, err := os.Stat(name)
		if err == nil && info.IsDir() {
			return "", nil, types.Errorf(types.Invalid, "FILE: %s is a directory: give an archive, such as docker save writes", name)
		}
		if err != nil {
			return "", nil, types.Errorf(types.Invalid, "FILE: %w: give an archive, such as docker save writes", err)
		}
		return name, func() {}, nil
	}
	return spool(func(w io.Writer) error {
		if _, err := io.Copy(w, f.In); err != nil {
			return types.Errorf(types.Unavailable, "read the input: %w", err)
		}
		return nil
	})
}

// spool stores the output of write in a file; remove deletes it.
func spool(write func(io.Writer) error) (path string, remove func(), err error) {
	file, err := os.CreateTemp("", "escher-image-*")
	if err != nil {
		return "", nil, types.Errorf(types.Precondition, "make a file for the image: %w: free or name another directory with TMPDIR", err)
	}
	defer file.Close()
	remove = func() { os.Remove(file.Name()) } //nolint:errcheck // Only space is lost.
	if err := write(file); err != nil {
		remove()
		return "", nil, err
	}
	return file.Name(), remove, nil
}

// imageRow is a row of a list of images of a node.
type imageRow struct {
	Name    string    `json:"name"`
	Node    string    `json:"node"`
	Digest  string    `json:"digest"`
	Bytes   int64     `json:"bytes"`
	Created time.Time `json:"created"`
}

// Header returns the columns.
func (imageRow) Header() []table.Column {
	return table.Columns("image", "node", "digest", "size", "age")
}

// Row returns the cells.
func (r imageRow) Row() []string {
	digest := strings.TrimPrefix(r.Digest, "sha256:")
	age := ""
	if !r.Created.IsZero() {
		age = render.Shortly(time.Since(r.Created))
	}
	return []string{r.Name, r.Node, digest[:min(12, len(digest))], humanize.IBytes(uint64(max(0, r.Bytes))), age}
}

func newImageList(f *cmdutil.Factory) *cobra.Command {
	var nodes nodeFlags
	cmd := &cobra.Command{
		Use:   "ls",
		Short: "List the images of the nodes",
		Long: `Lists the images of the nodes.

  escher image ls
  escher image ls --node node-1`,
		Args: cmdutil.Exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx := cmd.Context()
			names, err := nodes.names(ctx, f)
			if err != nil {
				return err
			}
			rows, failed := imagesOf(ctx, f, names)
			if err := cmdutil.Print(f, rows); err != nil {
				return err
			}
			return cmdutil.NodesFailed("list images", len(names), failed)
		},
	}
	nodes.Add(cmd)
	return cmd
}

// BinaryImage describes an image of one binary, named by its contents.
func BinaryImage(path string) (image.Spec, error) {
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
	name := image.LocalRegistry + imageName(base) + ":" + hex.EncodeToString(hash.Sum(nil)[:6])
	return image.Spec{Name: name, Files: map[string]string{InImage(path): path}}, nil
}

// InImage is the path of a binary in its image.
func InImage(path string) string { return "/bin/" + filepath.Base(path) }

// imageName makes a valid image name of a file's name.
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

// ImportImage loads an image named by its contents on all alive nodes.
func ImportImage(ctx context.Context, f *cmdutil.Factory, spec image.Spec) error {
	names, err := (&nodeFlags{}).names(ctx, f)
	if err != nil {
		return err
	}
	var without collected[string]
	failed := f.EachNode(ctx, names, func(ctx context.Context, c *nodeapi.Client) error {
		images, err := c.Images(ctx)
		if err == nil && !hasImage(images, spec.Name) {
			without.Add(c.Node())
		}
		return err
	})
	if err := cmdutil.NodesFailed("look for image "+spec.Name, len(names), failed); err != nil || len(without.all) == 0 {
		return err
	}
	cmdutil.SortBy(without.all, func(name string) string { return name })
	return makeImage(ctx, f, without.all, spec)
}

func hasImage(images []nodeapi.Image, name string) bool {
	for _, x := range images {
		if x.Name == name {
			return true
		}
	}
	return false
}

// makeImage makes an image and loads it on nodes.
func makeImage(ctx context.Context, f *cmdutil.Factory, names []string, spec image.Spec) error {
	path, remove, err := spool(func(w io.Writer) error { return image.Write(w, spec) })
	if err != nil {
		return err
	}
	defer remove()
	_, err = distribute(ctx, f, names, path)
	return err
}
