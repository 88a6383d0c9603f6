package nodeapi

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/escher-sched/escher/nodeagent/serve/inroot"
	"github.com/escher-sched/escher/types"
	"github.com/escher-sched/escher/types/action"
)

// tree is the files of a container. The container may change them at any moment, to anything. So
// the kernel resolves every path within the root, including links, and checks apply to opened
// files, never to names.
type tree struct{ root *os.File }

// openTree opens the files below a directory.
func openTree(dir string) (*tree, error) {
	root, err := os.OpenFile(dir, inroot.PathOnly|unix.O_DIRECTORY, 0)
	if err != nil {
		return nil, types.Errorf(types.Precondition, "open the files of the container: %w: it has ended", err)
	}
	return &tree{root}, nil
}

func (t *tree) close() { t.root.Close() }

// open opens a path within the root.
func (t *tree) open(name string, flags int) (*os.File, error) {
	f, err := inroot.Open(t.root, name, flags)
	if err != nil {
		return nil, fileError("open", name, err)
	}
	return f, nil
}

// parent opens the parent directory of a path, and also returns the last element.
func (t *tree) parent(name string) (dir *os.File, base string, err error) {
	clean := path.Join("/", name)
	if clean == "/" {
		return nil, "", types.Errorf(types.Invalid, "path: %q is the root: name something below it", name)
	}
	dir, err = t.open(path.Dir(clean), inroot.PathOnly|unix.O_DIRECTORY)
	return dir, path.Base(clean), err
}

// openAt opens an element of a directory, and does not follow a link.
func openAt(dir *os.File, base string, flags int) (*os.File, error) {
	f, err := inroot.OpenAt(dir, base, flags)
	if err != nil {
		return nil, fileError("open", path.Join(dir.Name(), base), err)
	}
	return f, nil
}

// reopen opens the file of f, which was opened with O_PATH, even if its name has changed.
func reopen(f *os.File, flags int) (*os.File, error) {
	fd, err := unix.Open("/proc/self/fd/"+strconv.Itoa(int(f.Fd())), flags|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, fileError("open", f.Name(), err)
	}
	return os.NewFile(uintptr(fd), f.Name()), nil
}

// readLink returns the target of a link opened with O_PATH.
func readLink(f *os.File) (string, error) {
	text := make([]byte, unix.PathMax)
	n, err := unix.Readlinkat(int(f.Fd()), "", text)
	if err != nil {
		return "", fileError("read link", f.Name(), err)
	}
	return string(text[:n]), nil
}

// fileError classifies an error of the kernel.
func fileError(verb, name string, err error) error {
	class := types.Precondition
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return types.Errorf(types.NotFound, "%s %s in the container: it is not there: name another: %s", verb, name, action.ListFiles.Of())
	case errors.Is(err, inroot.ErrKernel):
		return types.Errorf(types.Invalid, "%s %s in the container: %w: %s, which has its rights", verb, name, err, action.RunInside.Of())
	case errors.Is(err, unix.ENOSPC), errors.Is(err, unix.EDQUOT):
		class = types.Unavailable
	}
	return types.Errorf(class, "%s %s in the container: %w", verb, name, err)
}
