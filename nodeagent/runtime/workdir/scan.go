// Package workdir makes images of directories of users, for nodes to give to their tasks. The same
// files make the same image for every user: owners, times and the rights of others do not count. An
// image has a layer for each of the largest files, and spreads the others over a few by
// their paths, so that after a change most layers are the same.
package workdir

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/escher-sched/escher/nodeagent/runtime/workdir/gitignore"
	"github.com/escher-sched/escher/types"
)

const (
	ignoreFile = ".gitignore"
	gitDir     = ".git"
	// maxIgnoreFile bounds a .gitignore file, in bytes.
	maxIgnoreFile = 1 << 20
	// whiteout begins the names of deleted files in layers.
	whiteout = ".wh."
)

// Tree lists what is in a directory: files, directories and links that no .gitignore file leaves
// out. It contains no .git.
type Tree struct {
	dir     string
	entries []entry // sorted by directories
	// Bytes is the size of all files.
	Bytes int64
	// Skipped are sockets, pipes and devices, which are left out. Outside are links that lead out
	// of the directory; they stay as they are.
	Skipped, Outside []string
}

// entry is a file, a directory or a link.
type entry struct {
	path string // from the directory, with slashes
	link string // its target, if it is a link
	mode fs.FileMode
	size int64
	// modified is when a file changed, in Unix nanoseconds.
	modified int64
}

// Scan lists what is in a directory. Invalid: it is no directory, has files that cannot be read, or
// is larger than types.MaxWorkdirBytes or types.MaxWorkdirEntries.
func Scan(ctx context.Context, dir string) (*Tree, error) {
	return scan(ctx, dir, types.MaxWorkdirEntries)
}

func scan(ctx context.Context, dir string, maxEntries int) (*Tree, error) {
	dir, err := filepath.Abs(dir)
	if err == nil {
		dir, err = filepath.EvalSymlinks(dir)
	}
	if err != nil {
		return nil, types.Errorf(types.Invalid, "workdir: %w: name a directory of this machine", err)
	}
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		return nil, types.Errorf(types.Invalid, "workdir: %s is not a directory: name the one with your code", dir)
	}
	s := scanner{ctx: ctx, tree: &Tree{dir: dir}, maxEntries: maxEntries}
	rules, prefix, err := outerRules(dir)
	if err != nil {
		return nil, err
	}
	s.prefix = prefix
	s.scan(".", rules)
	switch {
	case ctx.Err() != nil:
		return nil, types.Errorf(types.Unavailable, "read workdir %s: %w", dir, ctx.Err())
	case s.tree.Bytes > types.MaxWorkdirBytes || len(s.tree.entries) > maxEntries:
		return nil, s.tree.tooLarge(maxEntries)
	case len(s.errs) > 0:
		return nil, types.Errorf(types.Invalid, "workdir: %s has files that cannot be sent: correct that, or name them in %s:\n%w", dir, ignoreFile, errors.Join(s.errs...))
	}
	return s.tree, nil
}

// scanner is one scan.
type scanner struct {
	ctx  context.Context
	tree *Tree
	// prefix is the path of the directory from the root of its repository.
	prefix     string
	maxEntries int
	errs       []error
}

// outerRules returns the rules of the directories above dir, up to the root of its git repository,
// and the path of dir from there. Without a repository there are none.
func outerRules(dir string) (rules *gitignore.Rules, prefix string, err error) {
	root := dir
	for {
		if _, err := os.Lstat(filepath.Join(root, gitDir)); err == nil {
			break
		}
		if root == filepath.Dir(root) {
			return nil, ".", nil
		}
		root = filepath.Dir(root)
	}
	prefix, err = filepath.Rel(root, dir)
	if err != nil {
		return nil, "", types.Errorf(types.Internal, "workdir: %w", err)
	}
	above := "."
	for _, name := range strings.Split(filepath.ToSlash(prefix), "/") {
		if name == "." {
			break
		}
		text, err := readIgnore(filepath.Join(root, above))
		if err != nil {
			return nil, "", err
		}
		rules, above = rules.Below(above, text), path.Join(above, name)
	}
	return rules, prefix, nil
}

// readIgnore reads the .gitignore file of a directory. Like git, it follows no link there.
func readIgnore(dir string) ([]byte, error) {
	name := filepath.Join(dir, ignoreFile)
	info, err := os.Lstat(name)
	if err != nil || !info.Mode().IsRegular() {
		return nil, nil //nolint:nilerr // there is none
	}
	if info.Size() > maxIgnoreFile {
		return nil, types.Errorf(types.Invalid, "workdir: %s has %d bytes: at most %d are read, shorten it", name, info.Size(), maxIgnoreFile)
	}
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, types.Errorf(types.Invalid, "workdir: %w: make it readable", err)
	}
	return text, nil
}

// full reports whether the scan need not go on.
func (s *scanner) full() bool {
	return s.ctx.Err() != nil || len(s.tree.entries) > s.maxEntries || len(s.errs) >= types.MaxProblems
}

func (s *scanner) fail(err error) { s.errs = append(s.errs, err) }

// scan lists a directory below the scanned one. rules are those of the directories above.
func (s *scanner) scan(dir string, rules *gitignore.Rules) {
	here := filepath.Join(s.tree.dir, dir)
	text, err := readIgnore(here)
	if err != nil {
		s.fail(err)
		return
	}
	if len(text) > 0 {
		rules = rules.Below(path.Join(s.prefix, dir), text)
	}
	all, err := os.ReadDir(here)
	if err != nil {
		s.fail(err)
		return
	}
	for _, e := range all {
		if s.full() {
			return
		}
		p := path.Join(dir, e.Name())
		if e.Name() == gitDir || rules.Ignored(path.Join(s.prefix, p), e.IsDir()) {
			continue
		}
		info, err := e.Info()
		if errors.Is(err, fs.ErrNotExist) {
			continue // It was deleted since, as if before.
		}
		if err == nil {
			err = s.add(p, info)
		}
		if err != nil {
			s.fail(err)
			continue
		}
		if e.IsDir() {
			s.scan(p, rules)
		}
	}
}

// add adds an entry. It opens files, so that those that cannot be read are found before any is sent.
func (s *scanner) add(p string, info fs.FileInfo) error {
	name := filepath.Join(s.tree.dir, p)
	if strings.HasPrefix(path.Base(p), whiteout) {
		return types.Errorf(types.Invalid, "%s: in an image, a name that begins with %s stands for a deleted file: rename it", name, whiteout)
	}
	e := entry{path: p, mode: info.Mode()}
	switch info.Mode().Type() {
	case 0:
		f, err := openFile(name)
		if err != nil {
			return err
		}
		if err := f.Close(); err != nil {
			return err
		}
		e.size, e.modified = info.Size(), info.ModTime().UnixNano()
		s.tree.Bytes += e.size
	case fs.ModeDir:
	case fs.ModeSymlink:
		link, err := os.Readlink(name)
		if err != nil {
			return err
		}
		if within := path.Join(path.Dir(p), link); path.IsAbs(link) || within == ".." || strings.HasPrefix(within, "../") {
			s.tree.Outside = append(s.tree.Outside, p)
		}
		e.link = link
	default:
		s.tree.Skipped = append(s.tree.Skipped, p)
		return nil
	}
	s.tree.entries = append(s.tree.entries, e)
	return nil
}

// openFile opens a file for reading. It neither follows a link nor waits for a pipe, which may have
// replaced it.
func openFile(name string) (*os.File, error) {
	return os.OpenFile(name, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
}

// copyFile writes a file, which must be as it was when it was listed.
func (t *Tree) copyFile(w io.Writer, e *entry) error {
	f, err := openFile(filepath.Join(t.dir, e.path))
	if err != nil {
		return t.changed(e, err)
	}
	defer f.Close()
	same := func() bool {
		info, err := f.Stat()
		return err == nil && info.Mode().IsRegular() && info.Size() == e.size && info.ModTime().UnixNano() == e.modified
	}
	if !same() {
		return t.changed(e, errOther)
	}
	if _, err := io.CopyN(w, f, e.size); err != nil {
		if errors.Is(err, io.EOF) {
			return t.changed(e, errOther)
		}
		return err
	}
	if !same() {
		return t.changed(e, errOther)
	}
	return nil
}

var errOther = errors.New("it changed while it was read")

func (t *Tree) changed(e *entry, err error) error {
	return types.Errorf(types.Unavailable, "workdir: %s: %w: try again when nothing writes there, or name it in %s", filepath.Join(t.dir, e.path), err, ignoreFile)
}
