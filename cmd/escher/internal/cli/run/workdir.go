package run

import (
	"context"
	"path"
	"strings"

	"github.com/escher-sched/escher/cmd/escher/internal/cli/cmdutil"
	"github.com/escher-sched/escher/cmd/escher/internal/cli/images"
	"github.com/escher-sched/escher/types"
)

// setWorkdir reads --workdir: an absolute path of the container, or a directory of this machine,
// with or without a path in the container.
func (s *specFlags) setWorkdir(out *types.Spec) error {
	from, to, divided := s.workdir, types.DefaultWorkdir, false
	if at := strings.LastIndex(from, ":/"); at >= 0 {
		from, to, divided = from[:at], path.Clean(from[at+1:]), true
	}
	switch {
	case from == "" && divided:
		return types.Errorf(types.Invalid, "workdir: %q names no directory of this machine: write .:%s", s.workdir, to)
	case from == "" || path.IsAbs(from) && !divided:
		out.Dir = from
		return nil
	}
	s.local = from
	out.Workdir = &types.Workdir{Image: types.UnsentWorkdir, Target: to}
	return nil
}

// sendWorkdir sends the directory of the tasks, whose spec then names it.
func (l *launching) sendWorkdir(ctx context.Context, f *cmdutil.Factory) error {
	if l.workdir == "" {
		return nil
	}
	img, err := images.PackWorkdir(ctx, f, l.workdir)
	if err != nil {
		return err
	}
	for i := range l.subs {
		l.subs[i].Spec.Workdir.Image = img.Name
	}
	return images.SendWorkdir(ctx, f, l.workdir, img)
}
