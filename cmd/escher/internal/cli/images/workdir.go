package images

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"github.com/dustin/go-humanize"

	"github.com/escher-sched/escher/cmd/escher/internal/cli/cmdutil"
	"github.com/escher-sched/escher/nodeagent/runtime/workdir"
	"github.com/escher-sched/escher/nodeagent/serve/nodeapi"
	"github.com/escher-sched/escher/types"
)

const (
	// maxWorkdirNodes is how many nodes get a directory at once. The others fetch it from them if
	// they run a task with it, so that a large cluster does not multiply what this machine sends.
	maxWorkdirNodes = 16
	// maxNoticed is how many files a notice names.
	maxNoticed = 3
)

// PackWorkdir makes the image of a directory of this machine, and tells what is not in it.
func PackWorkdir(ctx context.Context, f *cmdutil.Factory, dir string) (*workdir.Image, error) {
	done := f.Progress("reading " + dir)
	defer done()
	tree, err := workdir.Scan(ctx, dir)
	if err != nil {
		return nil, err
	}
	if n := len(tree.Skipped); n > 0 {
		f.Tell("workdir: %d of the files in %s are sockets, pipes or devices, and are left out: %s", n, dir, some(tree.Skipped))
	}
	if n := len(tree.Outside); n > 0 {
		f.Tell("workdir: %d of the links in %s lead out of it, and may lead nowhere in the container: %s", n, dir, some(tree.Outside))
	}
	return tree.Image(ctx)
}

// some names the first of several files.
func some(all []string) string {
	if len(all) > maxNoticed {
		return strings.Join(all[:maxNoticed], ", ") + ", …"
	}
	return strings.Join(all, ", ")
}

// SendWorkdir sends the image of a directory to the nodes: each gets the layers that it lacks. A
// node that cannot be reached fetches them later.
func SendWorkdir(ctx context.Context, f *cmdutil.Factory, dir string, img *workdir.Image) error {
	names, err := (&nodeFlags{}).names(ctx, f)
	if err != nil {
		return err
	}
	names = nearest(dir, names)
	s := sending{img: img, bars: cmdutil.NewBars(f, "sending")}
	// Nodes may share one containerd, as in escher dev: the others lack nothing then.
	failed := f.EachNode(ctx, names[:1], s.to)
	for node, err := range f.EachNode(ctx, names[1:], s.to) {
		failed[node] = err
	}
	s.bars.Close()
	switch {
	case ctx.Err() != nil:
		return types.Errorf(types.Unavailable, "send workdir %s: %w", dir, ctx.Err())
	case s.unreadable != nil:
		return s.unreadable // It is the same for every node.
	case len(failed) == len(names):
		return cmdutil.NodesFailed("send workdir "+dir, len(names), failed)
	}
	if s.sent > 0 {
		f.Tell("workdir: sent %s of the %s in %s to %d nodes", humanize.IBytes(uint64(s.sent)), humanize.IBytes(uint64(img.Bytes(img.Digests()))), dir, len(names)-len(failed))
	}
	for node, err := range failed {
		f.Tell("workdir: node %s does not have %s yet, and fetches it from another node if a task needs it there: %s", node, dir, err)
	}
	return nil
}

// nearest returns the nodes to send a directory to: always the same ones, which have most layers of
// its earlier versions.
func nearest(dir string, names []string) []string {
	if abs, err := filepath.Abs(dir); err == nil {
		dir = abs
	}
	rank := func(node string) string {
		sum := sha256.Sum256([]byte(dir + "\x00" + node))
		return string(sum[:])
	}
	names = slices.SortedFunc(slices.Values(names), func(a, b string) int { return cmp.Compare(rank(a), rank(b)) })
	return names[:min(len(names), maxWorkdirNodes)]
}

// sending is the transfer of one image. bars.Mu guards its results.
type sending struct {
	img  *workdir.Image
	bars *cmdutil.Bars

	sent       int64
	unreadable error
}

// to sends the image to a node. A layer that was there may be deleted before the image refers to it:
// then it tries once more.
func (s *sending) to(ctx context.Context, c *nodeapi.Client) error {
	err := s.try(ctx, c)
	if types.Is(err, types.Unavailable) && ctx.Err() == nil {
		err = s.try(ctx, c)
	}
	return err
}

func (s *sending) try(ctx context.Context, c *nodeapi.Client) error {
	lacking, err := c.Lacking(ctx, s.img.Digests())
	if err != nil {
		return err
	}
	total := s.img.Bytes(lacking)
	read, write := io.Pipe()
	written := make(chan error, 1)
	go func() {
		err := s.img.Write(ctx, write, lacking)
		write.CloseWithError(err)
		written <- err
	}()
	body := &counted{r: read, report: func(n int64) {
		if total > 0 {
			s.bars.Update(c.Node(), nodeapi.Pull{Done: n, Total: total, Unpacking: n >= total})
		}
	}}
	_, err = c.Load(ctx, body)
	read.CloseWithError(errRefused)
	unreadable := <-written
	if total > 0 {
		s.bars.Ended(c.Node(), err)
	}
	s.bars.Mu.Lock()
	defer s.bars.Mu.Unlock()
	if err == nil {
		s.sent = max(s.sent, total)
		return nil
	}
	if unreadable != nil && !errors.Is(unreadable, errRefused) {
		s.unreadable = unreadable
		return unreadable
	}
	return err
}

// errRefused ends a transfer that the node refused.
var errRefused = errors.New("the node takes no more")
