package images

import (
	"context"
	"io"
	"slices"
	"strings"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"

	"github.com/escher-sched/escher/cmd/escher/internal/cli/cmdutil"
	"github.com/escher-sched/escher/cmd/escher/internal/cli/render"
	"github.com/escher-sched/escher/nodeagent/serve/nodeapi"
	"github.com/escher-sched/escher/types"
)

// imageDescription describes an image.
type imageDescription struct {
	Name string `json:"name"`
	// On has a row for each node that has it.
	On []imageRow `json:"on"`
}

func newImageDescribe(f *cmdutil.Factory) *cobra.Command {
	var nodes nodeFlags
	cmd := &cobra.Command{
		Use:   "describe IMAGE",
		Short: "Show which nodes have an image, with its digest and size there",
		Long: `Shows which nodes have an image, with its digest and size there.

  escher image describe docker.io/library/busybox:1.36`,
		Args: cmdutil.Exactly("IMAGE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			names, err := nodes.names(ctx, f)
			if err != nil {
				return err
			}
			rows, failed := imagesOf(ctx, f, names)
			rows = slices.DeleteFunc(rows, func(r imageRow) bool { return r.Name != args[0] })
			if len(rows) == 0 && len(failed) == 0 {
				return types.Errorf(types.NotFound, "no node has image %q: escher image ls lists all, and escher pull gets it", args[0])
			}
			d := &imageDescription{Name: args[0], On: rows}
			if err := f.Show(d, d.Name, d.Write); err != nil {
				return err
			}
			return cmdutil.NodesFailed("describe the image", len(names), failed)
		},
	}
	nodes.Add(cmd)
	return cmd
}

// imagesOf returns the images of nodes by name and node, and the nodes that do not answer.
func imagesOf(ctx context.Context, f *cmdutil.Factory, nodes []string) ([]imageRow, map[string]error) {
	var rows collected[imageRow]
	failed := f.EachNode(ctx, nodes, func(ctx context.Context, c *nodeapi.Client) error {
		images, err := c.Images(ctx)
		for _, x := range images {
			rows.Add(imageRow{Name: x.Name, Node: c.Node(), Digest: x.Digest, Bytes: x.Bytes, Created: x.Created})
		}
		return err
	})
	cmdutil.SortBy(rows.all, func(r imageRow) string { return r.Name + " " + r.Node })
	return rows.all, failed
}

// Write writes it as text.
func (d *imageDescription) Write(w io.Writer) error {
	s := render.NewSheet(w)
	s.Line("Image", d.Name)
	var digests []string
	for _, r := range d.On {
		if !slices.Contains(digests, r.Digest) {
			digests = append(digests, r.Digest)
		}
	}
	s.Lines("Digest", digests)
	s.Group("Nodes that have it")
	for _, r := range d.On {
		cells := r.Row()
		s.Line("  "+r.Node, strings.Join([]string{cells[2], humanize.IBytes(uint64(max(0, r.Bytes)))}, "  "))
	}
	return s.End()
}
