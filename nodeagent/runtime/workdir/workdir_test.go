package workdir_test

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/escher-sched/escher/nodeagent/runtime/workdir"
	"github.com/escher-sched/escher/types"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// write makes files with these contents below a directory; a name with a slash at its end is an
// empty directory.
func write(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		p := filepath.Join(dir, name)
		must(t, os.MkdirAll(filepath.Dir(p), 0o700))
		if strings.HasSuffix(name, "/") {
			must(t, os.MkdirAll(p, 0o700))
			continue
		}
		must(t, os.WriteFile(p, []byte(text), 0o600))
	}
}

func scan(t *testing.T, dir string) *workdir.Tree {
	t.Helper()
	tree, err := workdir.Scan(t.Context(), dir)
	must(t, err)
	return tree
}

func pack(t *testing.T, dir string) *workdir.Image {
	t.Helper()
	img, err := scan(t, dir).Image(t.Context())
	must(t, err)
	return img
}

// contents returns the entries of all layers of an archive, and their contents or targets.
func contents(t *testing.T, img *workdir.Image) map[string]string {
	t.Helper()
	var archive bytes.Buffer
	must(t, img.Write(t.Context(), &archive, img.Digests()))
	all := make(map[string]string)
	layers := img.Digests()
	each(t, &archive, func(h *tar.Header, r io.Reader) {
		if !slices.Contains(layers, "sha256:"+filepath.Base(h.Name)) {
			return
		}
		each(t, r, func(h *tar.Header, r io.Reader) {
			text, err := io.ReadAll(r)
			must(t, err)
			if h.Uid != 0 || h.Gid != 0 || h.Uname != "" || h.ModTime.Year() != 2000 {
				t.Errorf("%s has owner %d:%d %q and time %s, want root and a fixed one", h.Name, h.Uid, h.Gid, h.Uname, h.ModTime)
			}
			all[h.Name] = fs.FileMode(h.Mode).String() + " " + string(text) + h.Linkname
		})
	})
	return all
}

func each(t *testing.T, r io.Reader, do func(*tar.Header, io.Reader)) {
	t.Helper()
	for archive := tar.NewReader(r); ; {
		h, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		must(t, err)
		do(h, archive)
	}
}

func TestImageHasTheFiles(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, map[string]string{"a": "one", "d/b": "two", "empty/": "", "\xff\n": "odd", strings.Repeat("long/", 60) + "x": "deep"})
	must(t, os.Chmod(filepath.Join(dir, "d/b"), 0o4751)) //nolint:gosec // it is executable
	must(t, os.Symlink("../a", filepath.Join(dir, "d/link")))
	got := contents(t, pack(t, dir))
	for name, want := range map[string]string{
		"./": "-rwxrwxrwx ", "a": "-rw-rw-rw- one", "d/": "-rwxrwxrwx ", "d/b": "-rwxrwxrwx two", "d/link": "-rwxrwxrwx ../a",
		"empty/": "-rwxrwxrwx ", "\xff\n": "-rw-rw-rw- odd", strings.Repeat("long/", 60) + "x": "-rw-rw-rw- deep",
	} {
		if got[name] != want {
			t.Errorf("%q is %q, want %q", name, got[name], want)
		}
	}
}

// TestSameFilesMakeTheSameImage tests that neither times nor owners nor the rights of others count,
// and that contents, names and the right to execute do.
func TestSameFilesMakeTheSameImage(t *testing.T) {
	files := map[string]string{"a": "one", "d/b": "two", "e/": ""}
	one, two := t.TempDir(), t.TempDir()
	write(t, one, files)
	write(t, two, files)
	must(t, os.Chtimes(filepath.Join(two, "a"), time.Unix(1, 0), time.Unix(1, 0)))
	must(t, os.Chmod(filepath.Join(two, "a"), 0o644)) //nolint:gosec // others may read it
	if os.Getuid() == 0 {
		must(t, os.Chown(filepath.Join(two, "a"), 12, 34))
	}
	same := pack(t, one).Name
	if got := pack(t, two).Name; got != same || !types.IsWorkdirImage(got) {
		t.Errorf("images %s and %s of the same files", same, got)
	}
	for what, change := range map[string]func(dir string) error{
		"content": func(dir string) error { return os.WriteFile(filepath.Join(dir, "a"), []byte("One"), 0o600) },
		"name":    func(dir string) error { return os.Rename(filepath.Join(dir, "a"), filepath.Join(dir, "A")) },
		"mode":    func(dir string) error { return os.Chmod(filepath.Join(dir, "a"), 0o700) }, //nolint:gosec // it is executable
		"empty":   func(dir string) error { return os.Remove(filepath.Join(dir, "e")) },
		"link":    func(dir string) error { return os.Symlink("a", filepath.Join(dir, "l")) },
	} {
		other := t.TempDir()
		write(t, other, files)
		must(t, change(other))
		if got := pack(t, other).Name; got == same {
			t.Errorf("another %s makes the same image", what)
		}
	}
}

// TestAChangeMakesOneNewLayer tests that most layers of a changed directory are the same.
func TestAChangeMakesOneNewLayer(t *testing.T) {
	dir := t.TempDir()
	files := map[string]string{"big/one": strings.Repeat("1", 9<<20), "big/two": strings.Repeat("2", 9<<20)}
	for i := range 2000 {
		name := filepath.Join(string(rune('a'+i%20)), string(rune('a'+i/20%10)), string(rune('a'+i/200)))
		files[name] = strings.Repeat(name, 3000)
	}
	write(t, dir, files)
	before := pack(t, dir)
	if n := len(before.Layers); n != 18 {
		t.Errorf("%d layers, want one for each large file and 16", n)
	}
	added := func(img *workdir.Image) (n int) {
		for _, d := range img.Digests() {
			if !slices.Contains(before.Digests(), d) {
				n++
			}
		}
		return n
	}
	write(t, dir, map[string]string{"c/d/e": "changed"})
	if n := added(pack(t, dir)); n != 1 {
		t.Errorf("a changed file makes %d new layers, want 1", n)
	}
	write(t, dir, map[string]string{"c/d/new": "new"})
	if n := added(pack(t, dir)); n > 2 {
		t.Errorf("another file makes %d new layers, want at most 2", n)
	}
	write(t, dir, map[string]string{"big/one": strings.Repeat("3", 9<<20)})
	if n := added(pack(t, dir)); n > 3 {
		t.Errorf("another large file makes %d new layers, want at most 3", n)
	}
}

func TestNoMoreLayersThanAMountTakes(t *testing.T) {
	dir := t.TempDir()
	for i := range 30 {
		name := filepath.Join(dir, string(rune('a'+i)))
		must(t, os.WriteFile(name, nil, 0o600))
		must(t, os.Truncate(name, 8<<20))
	}
	if n := len(pack(t, dir).Layers); n > 24 {
		t.Errorf("%d layers, want at most 24", n)
	}
}

func TestIgnored(t *testing.T) {
	dir := t.TempDir()
	must(t, os.Mkdir(filepath.Join(dir, ".git"), 0o700))
	write(t, dir, map[string]string{
		".gitignore": "*.ckpt\n/job/out\nbuild/\n", "top": "",
		"job/.gitignore": "!keep.ckpt\n__pycache__\n", "job/a.ckpt": "", "job/keep.ckpt": "", "job/out/x": "", "job/build/x": "", "job/train.py": "",
		"job/lib/__pycache__/x": "", "job/lib/out": "", "job/lib/.git": "gitdir: elsewhere", "job/lib/y.py": "",
	})
	got := contents(t, pack(t, filepath.Join(dir, "job")))
	for _, name := range []string{"train.py", "keep.ckpt", "lib/out", "lib/y.py", ".gitignore"} {
		if _, ok := got[name]; !ok {
			t.Errorf("%s is left out", name)
		}
	}
	for name := range got {
		if strings.Contains(name, "a.ckpt") || strings.Contains(name, "build") || strings.Contains(name, "pycache") || name == "out/x" || strings.HasSuffix(name, ".git") {
			t.Errorf("%s is not left out", name)
		}
	}
}

func TestLeftOutAndTold(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, map[string]string{"d/a": "one"})
	must(t, unix.Mkfifo(filepath.Join(dir, "pipe"), 0o600))
	l, err := net.Listen("unix", filepath.Join(dir, "s"))
	must(t, err)
	defer l.Close()
	for name, target := range map[string]string{"loop": "loop", "d/up": "..", "out": "/etc/passwd", "d/above": "../../x", "broken": "nowhere"} {
		must(t, os.Symlink(target, filepath.Join(dir, name)))
	}
	tree := scan(t, dir)
	if want := []string{"pipe", "s"}; !slices.Equal(tree.Skipped, want) {
		t.Errorf("left out %q, want %q", tree.Skipped, want)
	}
	if want := []string{"d/above", "out"}; !slices.Equal(tree.Outside, want) {
		t.Errorf("links outside are %q, want %q", tree.Outside, want)
	}
	got := contents(t, pack(t, dir))
	if got["loop"] != "-rwxrwxrwx loop" || got["d/up"] != "-rwxrwxrwx .." || got["out"] != "-rwxrwxrwx /etc/passwd" {
		t.Errorf("links are %q, %q and %q; want them as they are", got["loop"], got["d/up"], got["out"])
	}
}

func TestRefused(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, map[string]string{"file": "", "many/.wh.x": "", "rules/.gitignore": strings.Repeat("x\n", 1<<20)})
	for name, want := range map[string]string{
		"none": "no such file", "file": "is not a directory: name the one with your code", "many": "stands for a deleted file: rename it",
		"rules": "has 2097152 bytes: at most 1048576 are read",
	} {
		_, err := workdir.Scan(t.Context(), filepath.Join(dir, name))
		if !types.Is(err, types.Invalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want Invalid: %s", name, err, want)
		}
	}
}

// TestUnreadableFilesAreNamed reads as another user: root can read everything.
func TestUnreadableFilesAreNamed(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, map[string]string{"a": "", "secret": "", "closed/x": ""})
	must(t, os.Chmod(filepath.Join(dir, "secret"), 0))
	must(t, os.Chmod(filepath.Join(dir, "closed"), 0))
	defer func() { must(t, os.Chmod(filepath.Join(dir, "closed"), 0o700)) }() //nolint:gosec // it is a directory
	if os.Getuid() == 0 {
		for d := dir; d != os.TempDir() && d != "/"; d = filepath.Dir(d) {
			must(t, os.Chmod(d, 0o755)) //nolint:gosec // the other user enters it
		}
		must(t, os.Chmod(filepath.Join(dir, "a"), 0o644)) //nolint:gosec // the other user reads it
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		must(t, unix.Setfsuid(65534))
		defer func() { must(t, unix.Setfsuid(0)) }()
	}
	_, err := workdir.Scan(t.Context(), dir)
	if !types.Is(err, types.Invalid) || !strings.Contains(err.Error(), "secret") || !strings.Contains(err.Error(), "closed") || strings.Contains(err.Error(), "/a:") {
		t.Errorf("got %v, want Invalid with both names", err)
	}
}

func TestTooLarge(t *testing.T) {
	dir := t.TempDir()
	for name, size := range map[string]int64{"data/train.bin": 3 << 30, "data/test.bin": 1 << 20, "other/model": 2 << 30, "code.py": 100} {
		write(t, dir, map[string]string{name: ""})
		must(t, os.Truncate(filepath.Join(dir, name), size)) // it takes no space
	}
	_, err := workdir.Scan(t.Context(), dir)
	if want := "has 5.0 GiB: at most 4.0 GiB are sent; the largest parts are data/train.bin (3.0 GiB), other/model (2.0 GiB), code.py (100 B): name what the task does not need in .gitignore, and put large data on a mount"; !types.Is(err, types.Invalid) || !strings.HasSuffix(err.Error(), want) {
		t.Errorf("got %v, want Invalid: …%s", err, want)
	}
	write(t, dir, map[string]string{".gitignore": "*.bin"})
	if tree := scan(t, dir); tree.Bytes != 2<<30+100+5 {
		t.Errorf("%d bytes without the ignored, want 2 GiB and 105", tree.Bytes)
	}
}

func TestTooMany(t *testing.T) {
	dir := t.TempDir()
	files := map[string]string{"a": "", "src/main.py": ""}
	for _, name := range strings.Split("abcdefghijklmnop", "") {
		files["node_modules/"+name+"/x"] = ""
	}
	write(t, dir, files)
	_, err := workdir.ScanAtMost(t.Context(), dir, 30)
	if err == nil || !strings.Contains(err.Error(), "has more than 30 files: at most 30 are sent; the largest parts are node_modules (30 files), a (1 files): name") {
		t.Errorf("got %v, want it refused", err)
	}
}

// TestChangedMeanwhile tests that a changed file is an error in each of both passes, and never
// another content under the digest.
func TestChangedMeanwhile(t *testing.T) {
	for what, change := range map[string]func(path string) error{
		"longer":   func(p string) error { return os.WriteFile(p, []byte("longer"), 0o600) },
		"shorter":  func(p string) error { return os.Truncate(p, 1) },
		"gone":     os.Remove,
		"a pipe":   func(p string) error { return errors.Join(os.Remove(p), unix.Mkfifo(p, 0o600)) },
		"a link":   func(p string) error { return errors.Join(os.Remove(p), os.Symlink("/etc/passwd", p)) },
		"replaced": func(p string) error { return errors.Join(os.Remove(p), os.WriteFile(p, []byte("owT"), 0o600)) },
	} {
		t.Run(what, func(t *testing.T) {
			dir := t.TempDir()
			write(t, dir, map[string]string{"a": "one", "b": "two"})
			tree := scan(t, dir)
			img, err := tree.Image(t.Context())
			must(t, err)
			must(t, change(filepath.Join(dir, "b")))
			_, first := tree.Image(t.Context())
			second := img.Write(t.Context(), io.Discard, img.Digests())
			for _, err := range []error{first, second} {
				if !types.Is(err, types.Unavailable) || !strings.Contains(err.Error(), "/b: ") || !strings.Contains(err.Error(), "try again when nothing writes there") {
					t.Errorf("got %v, want Unavailable with its name", err)
				}
			}
		})
	}
}

// TestSameTimeAndSize tests a change that shows in neither: the digest finds it.
func TestSameTimeAndSize(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, map[string]string{"a": "one"})
	name := filepath.Join(dir, "a")
	info, err := os.Stat(name)
	must(t, err)
	img := pack(t, dir)
	write(t, dir, map[string]string{"a": "two"})
	must(t, os.Chtimes(name, info.ModTime(), info.ModTime()))
	if err := img.Write(t.Context(), io.Discard, img.Digests()); !types.Is(err, types.Unavailable) {
		t.Errorf("got %v, want Unavailable", err)
	}
	must(t, img.Write(t.Context(), io.Discard, nil)) // It reads no file.
}

func TestEnds(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, map[string]string{"a": "one"})
	tree := scan(t, dir)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, scanned := workdir.Scan(ctx, dir)
	_, packed := tree.Image(ctx)
	for _, err := range []error{scanned, packed} {
		if !types.Is(err, types.Unavailable) || !errors.Is(err, context.Canceled) {
			t.Errorf("got %v, want Unavailable", err)
		}
	}
}
