package container

import (
	"archive/tar"
	"errors"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/escher-sched/escher/types"
)

// packable reports whether an archive can contain a file.
func packable(info fs.FileInfo) bool {
	kind := info.Mode().Type()
	return kind == 0 || kind == fs.ModeDir || kind == fs.ModeSymlink
}

// localPacker makes a tar archive of files of this machine. tar.Writer.AddFS would not do: it fails
// at a pipe or socket instead of leaving it out, and at a file that grows meanwhile.
type localPacker struct {
	tar     *tar.Writer
	skipped int
}

// pack writes a file, or a directory with its contents, under a name; an empty name leaves the
// directory itself out. info is that of root, after a link if that is followed.
func (p *localPacker) pack(w io.Writer, root, name string, info fs.FileInfo) error {
	p.tar = tar.NewWriter(w)
	if info.Mode().Type() == fs.ModeSymlink || !info.IsDir() {
		if err := p.Add(root, name, info); err != nil {
			return err
		}
		return p.Close()
	}
	// WalkDir does not enter a link, but it does enter a link followed by a slash.
	err := filepath.WalkDir(root+string(filepath.Separator), func(at string, d fs.DirEntry, err error) error {
		if err != nil {
			return types.Errorf(types.Precondition, "read %s: %w: make it readable, or leave it out", at, err)
		}
		below, err := filepath.Rel(root, at)
		if err != nil {
			return types.Errorf(types.Internal, "read %s: %w", at, err)
		}
		info, err := d.Info()
		if errors.Is(err, fs.ErrNotExist) {
			return nil // deleted meanwhile
		}
		if err != nil {
			return types.Errorf(types.Precondition, "read %s: %w: make it readable, or leave it out", at, err)
		}
		inside := path.Join(name, filepath.ToSlash(below))
		if inside == "." {
			return nil
		}
		return p.Add(at, inside, info)
	})
	if err != nil {
		return err
	}
	return p.Close()
}

func (p *localPacker) Close() error {
	if err := p.tar.Close(); err != nil {
		return broken(err)
	}
	return nil
}

// broken returns the error that an archive could not be sent.
func broken(err error) error {
	return types.Errorf(types.Unavailable, "send files: %w", err)
}

// Add adds one file, directory or link.
func (p *localPacker) Add(at, name string, info fs.FileInfo) error {
	if !packable(info) {
		p.skipped++
		return nil
	}
	unreadable := func(err error) error {
		return types.Errorf(types.Precondition, "read %s: %w: make it readable, or leave it out", at, err)
	}
	link := ""
	if info.Mode().Type() == fs.ModeSymlink {
		var err error
		if link, err = os.Readlink(at); err != nil {
			return unreadable(err)
		}
	}
	h, err := tar.FileInfoHeader(info, link)
	if err != nil {
		return unreadable(err)
	}
	h.Name, h.Format = name, tar.FormatPAX
	if info.IsDir() {
		h.Name += "/"
	}
	if !info.Mode().IsRegular() {
		return p.header(h)
	}
	file, err := os.Open(at)
	if err != nil {
		return unreadable(err)
	}
	defer file.Close()
	if err := p.header(h); err != nil {
		return err
	}
	n, err := io.Copy(p.tar, io.LimitReader(file, h.Size))
	switch {
	case err != nil:
		return broken(err)
	case n < h.Size:
		return types.Errorf(types.Unavailable, "read %s: it became shorter meanwhile: try again", at)
	}
	return nil
}

func (p *localPacker) header(h *tar.Header) error {
	if err := p.tar.WriteHeader(h); err != nil {
		return broken(err)
	}
	return nil
}

// unpackLocal unpacks an archive with one entry at its top, under the name of the target. It never
// writes outside of the directory, whatever the archive contains.
func unpackLocal(archive io.Reader, to landing, owners bool) error {
	root, err := os.OpenRoot(to.dir)
	if err != nil {
		return types.Errorf(types.Invalid, "DST: %w: make the directory first", err)
	}
	defer root.Close() //nolint:errcheck // It is only a directory.
	in := tar.NewReader(archive)
	// Directories get their modes last, because these may forbid writes.
	modes := make(map[string]fs.FileMode)
	for {
		h, err := in.Next()
		if errors.Is(err, io.EOF) {
			return chmodAll(root, modes)
		}
		if err != nil {
			return types.Errorf(types.Unavailable, "receive files: %w: try again", err)
		}
		_, below, _ := strings.Cut(strings.TrimSuffix(h.Name, "/"), "/")
		name := path.Join(to.name, below)
		if name == "" {
			name = "."
		}
		if err := unpackEntry(root, h, in, name, owners); err != nil {
			return types.Errorf(types.Precondition, "write %s below %s: %w: free its place, or name another", name, to.dir, err)
		}
		if h.Typeflag == tar.TypeDir && name != "." {
			modes[name] = modeOf(h, owners)
		}
	}
}

// modeOf returns the mode of an entry: without its owner, it loses setuid and setgid.
func modeOf(h *tar.Header, owners bool) fs.FileMode {
	mode := h.FileInfo().Mode()
	if owners {
		return mode
	}
	return mode.Perm()
}

func chmodAll(root *os.Root, modes map[string]fs.FileMode) error {
	// Longest names first: entries come before their directory.
	names := slices.SortedFunc(maps.Keys(modes), func(a, b string) int { return len(b) - len(a) })
	for _, name := range names {
		if err := root.Chmod(name, modes[name]); err != nil {
			return types.Errorf(types.Precondition, "change the mode of %s: %w: do so by hand", name, err)
		}
	}
	return nil
}

// unpackEntry unpacks one entry.
func unpackEntry(root *os.Root, h *tar.Header, content io.Reader, name string, owners bool) error {
	switch h.Typeflag {
	case tar.TypeDir:
		if err := root.MkdirAll(name, 0o700); err != nil || name == "." {
			return err
		}
	case tar.TypeReg:
		if err := writeLocal(root, name, content); err != nil {
			return err
		}
	case tar.TypeSymlink:
		if err := root.Symlink(h.Linkname, name); errors.Is(err, fs.ErrExist) {
			if err := root.Remove(name); err != nil {
				return err
			}
			return root.Symlink(h.Linkname, name)
		} else if err != nil {
			return err
		}
		return nil
	default:
		return types.Errorf(types.Invalid, "it is neither a file nor a directory nor a link")
	}
	if owners {
		if err := root.Lchown(name, h.Uid, h.Gid); err != nil {
			return err
		}
	}
	if h.Typeflag == tar.TypeDir {
		return nil
	}
	if err := root.Chmod(name, modeOf(h, owners)); err != nil {
		return err
	}
	return root.Chtimes(name, h.ModTime, h.ModTime)
}

func writeLocal(root *os.Root, name string, content io.Reader) error {
	file, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	defer file.Close()
	if _, err := io.Copy(file, content); err != nil {
		return err
	}
	return file.Close()
}
