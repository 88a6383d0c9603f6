package container

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/escher-sched/escher/cmd/escher/internal/cli/cmdutil"
	"github.com/escher-sched/escher/types"
)

const cpHelp = `Copies files and directories between a running task and this machine. Write a path in a
task as TASK:PATH, and a path here that has a colon with ./ before it.

  escher cp web:/data/result.csv .       into an existing directory
  escher cp ./model web:/models/new      a directory, under a new name
  escher cp ./model/. web:/models        the contents of it
  escher cp web:/data - | tar -t         as a tar archive; - also reads one

Files keep their modes. They belong to the user of this command, or to root in a task;
with -a they keep their owners. Links are copied as links, unless -L is given.`

// cpFlags say how to copy files.
type cpFlags struct{ archive, follow bool }

// NewCp returns the command that copies files.
func NewCp(f *cmdutil.Factory) *cobra.Command {
	var flags cpFlags
	cmd := &cobra.Command{
		Use:   "cp SRC DST",
		Short: "Copy files into or out of a running task",
		Long:  cpHelp,
		Args:  cmdutil.Exactly("SRC", "DST"),
		RunE: func(cmd *cobra.Command, args []string) error {
			from, inTask := taskPath(args[0])
			to, toTask := taskPath(args[1])
			switch {
			case inTask && toTask:
				return types.Errorf(types.Invalid, "DST: is in a task, as SRC is: copy to this machine first, and from here then")
			case !inTask && !toTask:
				return types.Errorf(types.Invalid, "SRC: is on this machine, as DST is: write what is in a task as TASK:PATH")
			case inTask:
				return flags.out(cmd.Context(), f, from, args[1])
			}
			return flags.in(cmd.Context(), f, args[0], to)
		},
	}
	set := cmd.Flags()
	set.BoolVarP(&flags.archive, "archive", "a", false, "keep owners too")
	set.BoolVarP(&flags.follow, "follow-link", "L", false, "if SRC is a link, copy its target")
	return cmd
}

// inTask is a path in a task.
type inTask struct{ task, path string }

// taskPath reads TASK:PATH.
func taskPath(text string) (inTask, bool) {
	task, name, ok := strings.Cut(text, ":")
	if !ok || task == "" || strings.ContainsAny(task, "/.") && types.ValidateName("task", task) != nil || strings.HasPrefix(task, ".") {
		return inTask{}, false
	}
	if name == "" {
		name = "/"
	}
	return inTask{task: task, path: name}, true
}

// contents reports whether a path means the contents of the directory, not the directory itself.
func contents(name string) bool { return strings.HasSuffix(name, "/.") || name == "." }

// landing is the target of a copy: a name in a directory; an empty name is the directory itself.
type landing struct{ dir, name string }

// targetOf returns the target of a copy of src, as cp does. there is the mode of dst, nil if it
// does not exist.
func targetOf(src, dst string, srcDir bool, there *fs.FileMode) (landing, error) {
	base := path.Base(path.Join("/", filepath.ToSlash(src)))
	switch {
	case there != nil && there.IsDir():
		if srcDir && contents(src) || base == "/" {
			return landing{dir: dst}, nil
		}
		return landing{dst, base}, nil
	case there != nil && srcDir:
		return landing{}, types.Errorf(types.Invalid, "DST: %s is no directory, and SRC is one: name another", dst)
	case there == nil && !srcDir && strings.HasSuffix(dst, "/"):
		return landing{}, types.Errorf(types.Invalid, "DST: there is no directory %s: make it first", dst)
	}
	clean := path.Clean(dst)
	return landing{path.Dir(clean), path.Base(clean)}, nil
}

// out copies from a task.
func (c *cpFlags) out(ctx context.Context, f *cmdutil.Factory, src inTask, dst string) error {
	on, err := runningTask(f, ctx, src.task)
	if err != nil {
		return err
	}
	defer on.client.Close()
	follow := c.follow || strings.HasSuffix(src.path, "/") || contents(src.path)
	found, err := on.client.Stat(ctx, on.ns, on.id, on.attempt, src.path, follow)
	if err != nil {
		return err
	}
	to, err := localTarget(src.path, dst, found.Mode.IsDir())
	if err != nil {
		return err
	}
	archive, skipped, err := on.client.GetFiles(ctx, on.ns, on.id, on.attempt, src.path, follow)
	if err != nil {
		return err
	}
	defer archive.Close()
	defer f.Progress("copying from " + on.id)()
	if dst == "-" {
		_, err = io.Copy(f.Raw(), archive)
		if err != nil {
			err = types.Errorf(types.Unavailable, "copy %s of task %s: %w: try again", src.path, on.id, err)
		}
	} else {
		err = unpackLocal(archive, to, c.archive)
	}
	if err != nil {
		return err
	}
	sayLeftOut(f, skipped())
	return nil
}

// localTarget is the target of a copy to this machine.
func localTarget(src, dst string, srcDir bool) (landing, error) {
	if dst == "-" {
		return landing{}, nil
	}
	var there *fs.FileMode
	info, err := os.Stat(dst)
	switch {
	case err == nil:
		mode := info.Mode()
		there = &mode
	case !errors.Is(err, fs.ErrNotExist):
		return landing{}, types.Errorf(types.Invalid, "DST: %w: name another", err)
	}
	return targetOf(src, dst, srcDir, there)
}

// in copies to a task.
func (c *cpFlags) in(ctx context.Context, f *cmdutil.Factory, src string, dst inTask) error {
	on, err := runningTask(f, ctx, dst.task)
	if err != nil {
		return err
	}
	defer on.client.Close()
	if src == "-" {
		return on.client.PutFiles(ctx, on.ns, on.id, on.attempt, dst.path, f.In, c.archive)
	}
	look := os.Lstat
	if c.follow || strings.HasSuffix(src, "/") || contents(src) {
		look = os.Stat
	}
	info, err := look(src)
	if err != nil {
		return types.Errorf(types.Invalid, "SRC: %w: name a file or directory", err)
	}
	if !packable(info) {
		return types.Errorf(types.Invalid, "SRC: %s is neither a file nor a directory nor a link: name one that is", src)
	}
	var there *fs.FileMode
	found, err := on.client.Stat(ctx, on.ns, on.id, on.attempt, dst.path, true)
	if err == nil {
		there = &found.Mode
	} else if !types.Is(err, types.NotFound) {
		return err
	}
	abs, err := filepath.Abs(src)
	if err != nil {
		return types.Errorf(types.Invalid, "SRC: %w: give the path in full", err)
	}
	named := abs
	if contents(src) {
		named += "/."
	}
	to, err := targetOf(named, dst.path, info.IsDir(), there)
	if err != nil {
		return err
	}
	defer f.Progress("copying to " + on.id)()
	r, w := io.Pipe()
	pack := &localPacker{}
	packed := make(chan error, 1)
	go func() {
		err := pack.pack(w, abs, to.name, info)
		w.CloseWithError(err)
		packed <- err
	}()
	err = on.client.PutFiles(ctx, on.ns, on.id, on.attempt, to.dir, r, c.archive)
	r.CloseWithError(errNotWanted)
	if bad := <-packed; bad != nil && !errors.Is(bad, errNotWanted) {
		return bad
	}
	if err == nil {
		sayLeftOut(f, pack.skipped)
	}
	return err
}

// errNotWanted ends the writing of an archive that was refused.
var errNotWanted = errors.New("the reader has stopped")

func sayLeftOut(f *cmdutil.Factory, n int) {
	if n > 0 {
		f.Tell("left out: %d that are neither files nor directories nor links", n)
	}
}
