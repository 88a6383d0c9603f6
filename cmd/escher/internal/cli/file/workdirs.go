package file

import (
	"context"
	"maps"
	"path/filepath"
	"slices"

	"github.com/escher-sched/escher/cmd/escher/internal/cli/cmdutil"
	"github.com/escher-sched/escher/cmd/escher/internal/cli/images"
	"github.com/escher-sched/escher/controlplane/manifest"
	"github.com/escher-sched/escher/nodeagent/runtime/workdir"
	"github.com/escher-sched/escher/types"
)

// Workdirs are the directories that the tasks of a file need, by their paths.
type Workdirs map[string]*workdir.Image

// PackWorkdirs packs the directories that documents of a file name, and replaces them by their
// images in the documents. The images are to be sent before the tasks are submitted.
func PackWorkdirs(ctx context.Context, f *cmdutil.Factory, path string, docs []manifest.Document) (Workdirs, error) {
	packed := make(Workdirs)
	base := "."
	if path != "-" {
		base = filepath.Dir(path)
	}
	for i := range docs {
		for _, spec := range docs[i].Specs() {
			w := spec.Workdir
			if w == nil || w.From == "" {
				continue
			}
			if f.InTask() {
				return nil, ErrWorkdirInside()
			}
			dir := w.From
			if !filepath.IsAbs(dir) {
				dir = filepath.Join(base, dir)
			}
			if packed[dir] == nil {
				img, err := images.PackWorkdir(ctx, f, dir)
				if err != nil {
					return nil, err
				}
				packed[dir] = img
			}
			w.From, w.Image = "", packed[dir].Name
		}
	}
	return packed, nil
}

// Send sends the directories to the nodes.
func (w Workdirs) Send(ctx context.Context, f *cmdutil.Factory) error {
	for _, dir := range slices.Sorted(maps.Keys(w)) {
		if err := images.SendWorkdir(ctx, f, dir, w[dir]); err != nil {
			return err
		}
	}
	return nil
}

// ErrWorkdirInside says that a task sends no directories.
func ErrWorkdirInside() error {
	return types.Errorf(types.Precondition, "workdir: a task cannot send a directory: submit it outside, or mount a directory of the nodes")
}
