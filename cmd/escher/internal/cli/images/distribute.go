package images

import (
	"context"
	"io"
	"os"
	"sync"

	"github.com/spf13/cobra"

	"github.com/escher-sched/escher/cmd/escher/internal/cli/cmdutil"
	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/nodeagent/serve/nodeapi"
	"github.com/escher-sched/escher/types"
)

// nodeFlags select nodes.
type nodeFlags struct {
	nodes []string
	all   bool
}

func (n *nodeFlags) Add(cmd *cobra.Command) {
	cmd.Flags().StringArrayVar(&n.nodes, "node", nil, "this node; repeat for several; default: all alive nodes")
	cmd.Flags().BoolVar(&n.all, "all-nodes", false, "all alive nodes")
}

// names returns the names of the nodes: those given, else all alive ones. There is at least one.
func (n *nodeFlags) names(ctx context.Context, f *cmdutil.Factory) ([]string, error) {
	if n.all && len(n.nodes) > 0 {
		return nil, types.Errorf(types.Invalid, "node: excludes --all-nodes: give one of them")
	}
	client, err := f.Client(ctx)
	if err != nil {
		return nil, err
	}
	if len(n.nodes) > 0 {
		var names []string
		for _, name := range n.nodes {
			if name, err = client.ResolveKind(ctx, controlplane.Nodes, name); err != nil {
				return nil, err
			}
			names = append(names, name)
		}
		return names, nil
	}
	alive, away, err := nodeapi.Names(ctx, client.Store())
	if err != nil {
		return nil, err
	}
	if len(alive) == 0 {
		return nil, types.Errorf(types.Precondition, "find nodes: none of %d is alive: start an agent: escher agent --help", len(away))
	}
	return alive, nil
}

// collected holds values that several goroutines add.
type collected[T any] struct {
	mu  sync.Mutex
	all []T
}

func (c *collected[T]) Add(x T) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.all = append(c.all, x)
}

// distribute loads an archive of images on nodes, and returns its images. Nodes may share one
// containerd, as in escher dev: it loads the archive on the first one, and on others only if they
// do not have the images then.
func distribute(ctx context.Context, f *cmdutil.Factory, names []string, path string) ([]nodeapi.Image, error) {
	bars := cmdutil.NewBars(f, "loading")
	defer bars.Close()
	var images []nodeapi.Image
	failed := f.EachNode(ctx, names[:1], func(ctx context.Context, c *nodeapi.Client) (err error) {
		images, err = load(ctx, c, bars, path)
		return err
	})
	if err := failed[names[0]]; err != nil && types.Is(err, types.Invalid) {
		return nil, err // It is the same everywhere.
	}
	others := f.EachNode(ctx, names[1:], func(ctx context.Context, c *nodeapi.Client) error {
		there, err := c.Images(ctx)
		if err == nil && hasAll(there, images) {
			bars.Ended(c.Node(), nil)
			return nil
		}
		loaded, err := load(ctx, c, bars, path)
		if err == nil && len(failed) > 0 {
			bars.Mu.Lock()
			defer bars.Mu.Unlock()
			images = loaded
		}
		return err
	})
	for node, err := range failed {
		others[node] = err
	}
	return images, cmdutil.NodesFailed("load images", len(names), others)
}

// hasAll reports whether there has all of wanted; false if wanted is empty, as it is unknown.
func hasAll(there, wanted []nodeapi.Image) bool {
	type named struct{ name, digest string }
	has := make(map[named]bool, len(there))
	for _, x := range there {
		has[named{x.Name, x.Digest}] = true
	}
	for _, x := range wanted {
		if !has[named{x.Name, x.Digest}] {
			return false
		}
	}
	return len(wanted) > 0
}

// load loads an archive on one node.
func load(ctx context.Context, c *nodeapi.Client, bars *cmdutil.Bars, path string) ([]nodeapi.Image, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, types.Errorf(types.Invalid, "FILE: %w: give an archive, such as docker save writes", err)
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return nil, types.Errorf(types.Invalid, "FILE: %w: give an archive, such as docker save writes", err)
	}
	sent := &counted{r: file, report: func(n int64) {
		bars.Update(c.Node(), nodeapi.Pull{Done: n, Total: info.Size(), Unpacking: n == info.Size()})
	}}
	images, err := c.Load(ctx, sent)
	bars.Ended(c.Node(), err)
	return images, err
}

// counted reports how many bytes were read.
type counted struct {
	r      io.Reader
	n      int64
	report func(int64)
}

// Read reads.
func (c *counted) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n += int64(n)
	c.report(c.n)
	return n, err
}
