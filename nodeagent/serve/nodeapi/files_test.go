package nodeapi_test

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/escher-sched/escher/types"
)

// trapped makes a container whose links lead out to secret, next to its root.
func trapped(t *testing.T) (w *world, secret string) {
	t.Helper()
	w = newWorld(t)
	outside := t.TempDir()
	secret = filepath.Join(outside, "secret")
	root := func(name string) string { return filepath.Join(w.runtime.root, name) }
	err := errors.Join(
		os.WriteFile(secret, []byte("secret"), 0o600),
		os.MkdirAll(root("dir/sub"), 0o755),
		os.WriteFile(root("dir/file"), []byte("content"), 0o640),
		os.Symlink("file", root("dir/link")),
		os.Symlink(outside, root("out")),
		os.Symlink(strings.Repeat("../", 40)+strings.TrimPrefix(outside, "/"), root("up")),
		os.Symlink(secret, root("direct")),
		os.Symlink("/dir", root("inside")),
		unix.Mknod(root("dir/device"), unix.S_IFCHR|0o600, 0x103),
		unix.Mkfifo(root("dir/pipe"), 0o600),
	)
	if err != nil {
		t.Fatal(err)
	}
	return w, secret
}

func TestFilesStayInTheContainer(t *testing.T) {
	w, secret := trapped(t)
	for _, name := range []string{"/out/secret", "/up/secret", "/direct", "/../../../../" + secret, "/inside/../../../.." + secret} {
		if _, err := w.Stat(t.Context(), "x", "t", 1, name, true); !types.Is(err, types.NotFound) {
			t.Errorf("%s leads somewhere: %v", name, err)
		}
		archive, _, err := w.GetFiles(t.Context(), "x", "t", 1, name, true)
		if !types.Is(err, types.NotFound) {
			text, _ := io.ReadAll(archive)
			t.Errorf("%s is readable: %v, %q", name, err, text)
		}
	}
	// A link that stays inside works as the container sees it.
	if s, err := w.Stat(t.Context(), "x", "t", 1, "/inside/file", true); err != nil || s.Size != 7 {
		t.Errorf("%+v, %v", s, err)
	}
	for _, dir := range []string{"/out", "/up"} {
		if err := w.PutFiles(t.Context(), "x", "t", 1, dir, archive(t, entry{"new", tar.TypeReg, ""}), false); !types.Is(err, types.NotFound) {
			t.Errorf("%s: %v", dir, err)
		}
	}
	for _, entries := range [][]entry{
		{{"out/secret", tar.TypeReg, ""}}, {{"direct", tar.TypeReg, ""}}, {{"../../secret", tar.TypeReg, ""}}, {{"up/new", tar.TypeReg, ""}},
		{{"trap", tar.TypeSymlink, filepath.Dir(secret)}, {"trap/secret", tar.TypeReg, ""}},
		{{"hard", tar.TypeLink, "direct"}, {"hard", tar.TypeReg, ""}},
		{{"hard2", tar.TypeLink, "../../../.." + secret}},
	} {
		err := w.PutFiles(t.Context(), "x", "t", 1, "/", archive(t, entries...), false)
		t.Logf("%v: %v", entries, err)
	}
	text, err := os.ReadFile(secret)
	left, err2 := os.ReadDir(filepath.Dir(secret))
	if err != nil || err2 != nil || string(text) != "secret" || len(left) != 1 {
		t.Errorf("outside there is %q and %v", text, left)
	}
}

func TestFilesAreFiles(t *testing.T) {
	w, _ := trapped(t)
	for _, name := range []string{"/dir/device", "/dir/pipe"} {
		if _, _, err := w.GetFiles(t.Context(), "x", "t", 1, name, false); !types.Is(err, types.Invalid) {
			t.Errorf("get %s: %v", name, err)
		}
		err := w.PutFiles(t.Context(), "x", "t", 1, "/", archive(t, entry{name, tar.TypeReg, ""}), false)
		if !types.Is(err, types.Precondition) {
			t.Errorf("put %s: %v", name, err)
		}
	}
	for kind := range map[byte]bool{tar.TypeChar: true, tar.TypeBlock: true, tar.TypeFifo: true} {
		err := w.PutFiles(t.Context(), "x", "t", 1, "/", archive(t, entry{"made", kind, ""}), false)
		if !types.Is(err, types.Invalid) {
			t.Errorf("make a %q: %v", kind, err)
		}
	}
	if err := w.PutFiles(t.Context(), "x", "t", 1, "/dir/file", archive(t), false); err == nil {
		t.Error("a file is taken for a directory")
	}
	if err := w.PutFiles(t.Context(), "x", "t", 1, "/dir", strings.NewReader(strings.Repeat("garbage", 1000)), false); !types.Is(err, types.Invalid) {
		t.Errorf("garbage: %v", err)
	}
}

func TestFilesThereAndBack(t *testing.T) {
	w, _ := trapped(t)
	got, skipped, err := w.GetFiles(t.Context(), "x", "t", 1, "/dir", false)
	if err != nil {
		t.Fatal(err)
	}
	defer got.Close()
	text, err := io.ReadAll(got)
	if err != nil || skipped() != 2 {
		t.Errorf("%v, %d were skipped", err, skipped())
	}
	if err := os.Mkdir(filepath.Join(w.runtime.root, "copy"), 0o755); err != nil {
		t.Fatal(err)
	}
	for range 2 { // the second time over existing files
		if err := w.PutFiles(t.Context(), "x", "t", 1, "/copy", bytes.NewReader(text), false); err != nil {
			t.Fatal(err)
		}
	}
	copied := filepath.Join(w.runtime.root, "copy/dir")
	info, err := os.Stat(filepath.Join(copied, "file"))
	if err != nil || info.Mode() != 0o640 || info.Size() != 7 {
		t.Errorf("%v, %v", info, err)
	}
	if to, err := os.Readlink(filepath.Join(copied, "link")); to != "file" {
		t.Errorf("%q, %v", to, err)
	}
	if info, err := os.Stat(filepath.Join(copied, "sub")); err != nil || !info.IsDir() {
		t.Errorf("%v, %v", info, err)
	}
}

// TestFilesOfTheKernel tests that files of the kernel are neither read nor written nor examined:
// the agent has more rights there than the container, and some of them never end.
func TestFilesOfTheKernel(t *testing.T) {
	w, _ := trapped(t)
	w.runtime.root = "/"
	before, err := os.ReadFile("/proc/self/oom_score_adj")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"/proc/kmsg", "/proc/version", "/proc/self", "/proc", "/sys/kernel/mm", "/dev/pts"} {
		_, _, err := w.GetFiles(t.Context(), "x", "t", 1, name, true)
		if !types.Is(err, types.Invalid) || !strings.Contains(err.Error(), "file system of the kernel") {
			t.Errorf("get %s: %v", name, err)
		}
		if _, err := w.Stat(t.Context(), "x", "t", 1, name, true); !types.Is(err, types.Invalid) {
			t.Errorf("look at %s: %v", name, err)
		}
	}
	put := archive(t, entry{"oom_score_adj", tar.TypeReg, ""}, entry{"comm", tar.TypeSymlink, "x"}, entry{"new", tar.TypeDir, ""})
	for _, dir := range []string{"/proc/self", "/proc", "/sys"} {
		if err := w.PutFiles(t.Context(), "x", "t", 1, dir, put, false); !types.Is(err, types.Invalid) {
			t.Errorf("put into %s: %v", dir, err)
		}
	}
	for _, one := range []entry{{"proc/self/oom_score_adj", tar.TypeReg, ""}, {"proc/new", tar.TypeDir, ""}, {"proc/new", tar.TypeSymlink, "x"}, {"tmp/hard", tar.TypeLink, "proc/version"}} {
		if err := w.PutFiles(t.Context(), "x", "t", 1, "/", archive(t, one), false); !types.Is(err, types.Invalid) {
			t.Errorf("put %s: %v", one.name, err)
		}
	}
	if after, err := os.ReadFile("/proc/self/oom_score_adj"); err != nil || !bytes.Equal(before, after) {
		t.Errorf("%s was %s: %v", after, before, err)
	}
}

// entry is an entry of an archive: its name, kind and target.
type entry struct {
	name string
	kind byte
	to   string
}

func archive(t *testing.T, entries ...entry) io.Reader {
	t.Helper()
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, e := range entries {
		h := &tar.Header{Name: e.name, Typeflag: e.kind, Linkname: e.to, Mode: 0o4755}
		if e.kind == tar.TypeReg {
			h.Size = 3
		}
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if e.kind == tar.TypeReg {
			if _, err := w.Write([]byte("new")); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return &out
}
