package nodeapi

import (
	"archive/tar"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/escher-sched/escher/nodeagent/serve/inroot"
	"github.com/escher-sched/escher/types"
)

const (
	// maxDepth limits the nesting of directories: each is an open file.
	maxDepth = 256
	// someNames is how many names of a directory are in memory at once.
	someNames = 4096
)

// packer makes a tar archive of opened files. It does not use tar.Writer.AddFS with an os.Root: an
// os.Root does not resolve absolute links as the container sees them, and opens files of the
// kernel. AddFS opens by name, which may be a pipe by then, and fails at the first pipe or socket.
type packer struct {
	tar     *tar.Writer
	skipped int
}

// nameOf returns the name of a path in an archive. The root of a container is refused: it includes
// the kernel's /proc and /sys.
func nameOf(name string) (string, error) {
	base := path.Base(path.Join("/", name))
	if base == "/" {
		return "", types.Errorf(types.Invalid, "path: %q is all of the container: name a directory or file of it, such as /data", name)
	}
	return base, nil
}

// packable returns why a file cannot be in an archive; nil if it can.
func packable(info fs.FileInfo) error {
	switch info.Mode().Type() {
	case 0, fs.ModeDir, fs.ModeSymlink:
		return nil
	}
	return types.Errorf(types.Invalid, "path: %s is neither a file nor a directory nor a link: name one that is", info.Name())
}

// add adds f, opened with O_PATH, and everything below it if it is a directory.
func (p *packer) add(f *os.File, name string, depth int) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if packable(info) != nil {
		p.skipped++
		return nil
	}
	switch info.Mode().Type() {
	case fs.ModeDir:
		return p.addDir(f, info, name, depth)
	case fs.ModeSymlink:
		target, err := readLink(f)
		if err != nil {
			return err
		}
		return p.header(info, name, target, 0)
	}
	return p.addFile(f, info, name)
}

// header writes the header of an entry.
func (p *packer) header(info fs.FileInfo, name, target string, size int64) error {
	h, err := tar.FileInfoHeader(info, target)
	if err != nil {
		return err
	}
	h.Name, h.Size, h.Uname, h.Gname = name, size, "", ""
	h.Format = tar.FormatPAX
	if info.IsDir() {
		h.Name += "/"
	}
	return p.tar.WriteHeader(h)
}

func (p *packer) addFile(f *os.File, info fs.FileInfo, name string) error {
	open, err := reopen(f, unix.O_RDONLY)
	if err != nil {
		return err
	}
	defer open.Close()
	size := info.Size()
	if err := p.header(info, name, "", size); err != nil {
		return err
	}
	n, err := io.Copy(p.tar, io.LimitReader(open, size))
	if err == nil && n < size {
		err = types.Errorf(types.Unavailable, "read %s in the container: it became shorter meanwhile: try again", name)
	}
	return err
}

func (p *packer) addDir(f *os.File, info fs.FileInfo, name string, depth int) error {
	if depth > maxDepth {
		return types.Errorf(types.Invalid, "path: directories are nested deeper than %d: copy parts of it", maxDepth)
	}
	if err := p.header(info, name, "", 0); err != nil {
		return err
	}
	open, err := reopen(f, unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return err
	}
	defer open.Close()
	for {
		names, err := open.Readdirnames(someNames)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fileError("list", name, err)
		}
		slices.Sort(names)
		for _, base := range names {
			if err := p.addEntry(open, base, path.Join(name, base), depth); err != nil {
				return err
			}
		}
	}
}

// addEntry adds an element of a directory. It omits a mounted file system of the kernel.
func (p *packer) addEntry(dir *os.File, base, name string, depth int) error {
	entry, err := openAt(dir, base, inroot.PathOnly)
	switch {
	case types.Is(err, types.NotFound):
		return nil // It has just been deleted.
	case errors.Is(err, inroot.ErrKernel):
		p.skipped++
		return nil
	case err != nil:
		return err
	}
	defer entry.Close()
	return p.add(entry, name, depth+1)
}

// unpacker unpacks a tar archive into a directory of a container.
type unpacker struct {
	tree *tree
	dir  string
	// owners reports whether to keep the owners in the archive.
	owners bool
}

// unpack unpacks the whole archive.
func (u *unpacker) unpack(archive io.Reader) error {
	in := tar.NewReader(archive)
	for {
		h, err := in.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return types.Errorf(types.Invalid, "archive: %w: send a tar archive, all of it", err)
		}
		if err := u.entry(h, in); err != nil {
			return err
		}
	}
}

// path returns the path in the container of a name in the archive.
func (u *unpacker) path(name string) string { return path.Join("/", u.dir, path.Join("/", name)) }

// entry unpacks one entry.
func (u *unpacker) entry(h *tar.Header, content io.Reader) error {
	if path.Join("/", h.Name) == "/" {
		return nil // The directory itself exists.
	}
	name := u.path(h.Name)
	dir, base, err := u.parent(name)
	if err != nil {
		return err
	}
	defer dir.Close()
	var made *os.File
	switch h.Typeflag {
	case tar.TypeDir:
		made, err = u.mkdir(dir, base, name)
	case tar.TypeReg:
		made, err = u.file(dir, base, name, content)
	case tar.TypeSymlink:
		return u.link(dir, base, name, func() error { return unix.Symlinkat(h.Linkname, int(dir.Fd()), base) })
	case tar.TypeLink:
		return u.hardLink(dir, base, name, h.Linkname)
	case tar.TypeXGlobalHeader:
		return nil
	default:
		return types.Errorf(types.Invalid, "archive: %s is neither a file nor a directory nor a link: leave it out", h.Name)
	}
	if err != nil || made == nil {
		return err
	}
	defer made.Close()
	return u.dress(made, h)
}

// parent opens the parent directory of a path, and makes missing directories.
func (u *unpacker) parent(name string) (*os.File, string, error) {
	dir, base, err := u.tree.parent(name)
	if !types.Is(err, types.NotFound) {
		return dir, base, err
	}
	above, _, err := u.parent(path.Dir(name))
	if err != nil {
		return nil, "", err
	}
	defer above.Close()
	made, err := u.mkdir(above, path.Base(path.Dir(name)), path.Dir(name))
	if err != nil {
		return nil, "", err
	}
	if made != nil {
		made.Close()
	}
	return u.tree.parent(name)
}

// mkdir makes a directory and opens it; nil if a directory or a link to one exists.
func (u *unpacker) mkdir(dir *os.File, base, name string) (*os.File, error) {
	switch err := unix.Mkdirat(int(dir.Fd()), base, 0o755); {
	case errors.Is(err, unix.EEXIST):
		there, err := u.tree.open(name, inroot.PathOnly|unix.O_DIRECTORY)
		if err != nil {
			return nil, types.Errorf(types.Precondition, "make directory %s in the container: something else is in its place: remove it", name)
		}
		return nil, there.Close()
	case err != nil:
		return nil, fileError("make directory", name, err)
	}
	return openAt(dir, base, unix.O_RDONLY|unix.O_DIRECTORY)
}

// file writes a file: an existing one, through a link if it leads to a file, or a new one.
func (u *unpacker) file(dir *os.File, base, name string, content io.Reader) (*os.File, error) {
	var f *os.File
	there, err := u.tree.open(name, inroot.PathOnly)
	switch {
	case types.Is(err, types.NotFound):
		f, err = openNew(dir, base)
	case err == nil:
		defer there.Close()
		f, err = overwrite(there, name)
	}
	if err != nil {
		return nil, err
	}
	if _, err := io.Copy(f, content); err != nil {
		f.Close()
		return nil, fileError("write", name, err)
	}
	return f, nil
}

// openNew makes a file that does not exist.
func openNew(dir *os.File, base string) (*os.File, error) {
	name := path.Join(dir.Name(), base)
	const flags = unix.O_CREAT | unix.O_EXCL | unix.O_WRONLY | unix.O_NOFOLLOW | unix.O_CLOEXEC
	fd, err := unix.Openat(int(dir.Fd()), base, flags, 0o600)
	if errors.Is(err, unix.EEXIST) {
		return nil, types.Errorf(types.Precondition, "make file %s in the container: a link that leads nowhere is in its place: remove it", name)
	}
	if err != nil {
		return nil, fileError("make file", name, err)
	}
	return os.NewFile(uintptr(fd), name), nil
}

// overwrite opens an existing file and truncates it.
func overwrite(there *os.File, name string) (*os.File, error) {
	info, err := there.Stat()
	if err != nil {
		return nil, fileError("look at", name, err)
	}
	if !info.Mode().IsRegular() {
		return nil, types.Errorf(types.Precondition, "write %s in the container: what is there is no file but %s: remove it, or name another", name, kindOf(info.Mode()))
	}
	return reopen(there, unix.O_WRONLY|unix.O_TRUNC)
}

func kindOf(mode fs.FileMode) string {
	switch {
	case mode.IsDir():
		return "a directory"
	case mode&fs.ModeDevice != 0:
		return "a device"
	case mode&fs.ModeNamedPipe != 0:
		return "a pipe"
	}
	return "something else"
}

// link makes a link. It replaces anything but a directory.
func (u *unpacker) link(dir *os.File, base, name string, make func() error) error {
	err := make()
	if errors.Is(err, unix.EEXIST) {
		if err = unix.Unlinkat(int(dir.Fd()), base, 0); err == nil {
			err = make()
		}
	}
	if err != nil {
		return fileError("make link", name, err)
	}
	return nil
}

// hardLink makes another name of a file in the archive.
func (u *unpacker) hardLink(dir *os.File, base, name, target string) error {
	f, err := u.tree.look(u.path(target), false)
	if err != nil {
		return err
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return types.Errorf(types.Invalid, "archive: %s is a link to what is no file: leave it out", strings.TrimPrefix(name, "/"))
	}
	return u.link(dir, base, name, func() error {
		return unix.Linkat(int(f.Fd()), "", int(dir.Fd()), base, inroot.EmptyPath)
	})
}

// dress sets the mode, time and owner of an unpacked file.
func (u *unpacker) dress(f *os.File, h *tar.Header) error {
	mode := h.FileInfo().Mode()
	if u.owners {
		if err := f.Chown(h.Uid, h.Gid); err != nil {
			return fileError("change the owner of", f.Name(), err)
		}
	} else {
		mode = mode.Perm() // Drop setuid: the file now belongs to root.
	}
	if err := f.Chmod(mode); err != nil {
		return fileError("change the mode of", f.Name(), err)
	}
	if h.Typeflag == tar.TypeDir || h.ModTime.IsZero() {
		return nil
	}
	at := unix.NsecToTimeval(h.ModTime.UnixNano())
	if err := unix.Futimes(int(f.Fd()), []unix.Timeval{at, at}); err != nil {
		return fileError("change the time of", f.Name(), err)
	}
	return nil
}
