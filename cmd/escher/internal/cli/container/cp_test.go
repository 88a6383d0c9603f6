package container

import (
	"archive/tar"
	"bytes"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/escher-sched/escher/types"
)

// TestTaskPath tells a path in a task from one of this machine.
func TestTaskPath(t *testing.T) {
	for text, want := range map[string]inTask{
		"web:/data":       {"web", "/data"},
		"web:":            {"web", "/"},
		"v1.2:x":          {"v1.2", "x"},
		"web:/a:b":        {"web", "/a:b"},
		"web":             {},
		":/data":          {},
		"./web:x":         {},
		"/tmp/a:b":        {},
		"../a:b":          {},
		".:x":             {},
		"dir/file.txt:/x": {},
		"-":               {},
	} {
		if got, ok := taskPath(text); got != want || ok != (want != inTask{}) {
			t.Errorf("%s: %+v, %t, want %+v", text, got, ok, want)
		}
	}
}

// TestTargetOf puts copies where cp does.
func TestTargetOf(t *testing.T) {
	dir, file := new(fs.ModeDir|0o755), new(fs.FileMode(0o644))
	for _, x := range []struct {
		src, dst string
		srcDir   bool
		there    *fs.FileMode
		want     landing
		says     string
	}{
		{src: "/data/a", dst: "to", there: dir, want: landing{"to", "a"}},
		{src: "/data/a/", dst: "to/", srcDir: true, there: dir, want: landing{"to/", "a"}},
		{src: "/data/.", dst: "to", srcDir: true, there: dir, want: landing{dir: "to"}},
		{src: "/", dst: "to", srcDir: true, there: dir, want: landing{dir: "to"}},
		{src: "/data/a", dst: "to/b", there: file, want: landing{"to", "b"}},
		{src: "/data/a", dst: "b", want: landing{".", "b"}},
		{src: "/data/a", dst: "to/new/", srcDir: true, want: landing{"to", "new"}},
		{src: "/data/a", dst: "b", srcDir: true, there: file, says: "DST: b is no directory, and SRC is one: name another"},
		{src: "/data/a", dst: "to/", says: "DST: there is no directory to/: make it first"},
	} {
		got, err := targetOf(x.src, x.dst, x.srcDir, x.there)
		if x.says == "" && (err != nil || got != x.want) || x.says != "" && (!types.Is(err, types.Invalid) || err.Error() != x.says) {
			t.Errorf("%s to %s: %+v, %v", x.src, x.dst, got, err)
		}
	}
}

func TestLocalTarget(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "f")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for dst, want := range map[string]landing{"-": {}, dir: {dir, "a"}, file: {dir, "f"}, filepath.Join(dir, "new"): {dir, "new"}} {
		if got, err := localTarget("/x/a", dst, false); err != nil || got != want {
			t.Errorf("%s: %+v, %v, want %+v", dst, got, err, want)
		}
	}
	if _, err := localTarget("/x/a", file+"/below", false); !types.Is(err, types.Invalid) || !strings.Contains(err.Error(), "name another") {
		t.Errorf("below a file: %v", err)
	}
}

func TestParseForward(t *testing.T) {
	known := map[string]int{"http": 20001}
	for text, want := range map[string]forwarding{
		"http":      {20001, 20001, false},
		"8888":      {8888, 8888, false},
		"9000:http": {9000, 20001, true},
		":8888":     {0, 8888, true},
	} {
		if got, err := parseForward(text, known); err != nil || got != want {
			t.Errorf("%s: %+v, %v, want %+v", text, got, err, want)
		}
	}
	for text, says := range map[string]string{
		"grpc":       `port "grpc": the task has no port of that name: give a number from 1 to 65535, or one of http=20001`,
		"0":          "give a number from 1 to 65535, or one of http=20001",
		"65536":      `port "65536": `,
		"x:8888":     `"x" is not a port of this machine: give 1 to 65535`,
		"-1:8888":    `"-1" is not a port of this machine`,
		"65536:8888": `"65536" is not a port of this machine`,
		"8888:":      `"8888:" has no port of the task after the colon: write 8888`,
	} {
		if _, err := parseForward(text, known); !types.Is(err, types.Invalid) || !strings.HasPrefix(err.Error(), "PORT: ") || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, want %q", text, err, says)
		}
	}
}

func TestOtherPorts(t *testing.T) {
	known := map[string]int{"http": 20001, "db": 20002}
	for port, want := range map[int]string{80: "; ports of the task are db=20002,http=20001", 20001: ""} {
		if got := others(port, known); got != want {
			t.Errorf("%d: %q, want %q", port, got, want)
		}
	}
	if got := others(80, nil); got != "" {
		t.Errorf("a task without ports: %q", got)
	}
}

// TestCopiesATree packs a directory and unpacks it under another name: modes, times and links stay, a
// directory that forbids writes gets its files, and a pipe is left out.
func TestCopiesATree(t *testing.T) {
	from, to := filepath.Join(t.TempDir(), "src"), t.TempDir()
	at := time.Unix(1_700_000_000, 0)
	for _, dir := range []string{"", "empty", "sub"} {
		if err := os.Mkdir(filepath.Join(from, dir), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for name, mode := range map[string]fs.FileMode{"run.sh": 0o750, "sub/data": 0o440} {
		file := filepath.Join(from, name)
		if err := os.WriteFile(file, []byte(name), mode); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(file, at, at); err != nil {
			t.Fatal(err)
		}
	}
	for _, err := range []error{
		os.Symlink("sub/data", filepath.Join(from, "link")), syscall.Mkfifo(filepath.Join(from, "pipe"), 0o600), os.Chmod(filepath.Join(from, "sub"), 0o500),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() { // lets the directories be deleted
		_ = os.Chmod(filepath.Join(from, "sub"), 0o700)
		_ = os.Chmod(filepath.Join(to, "new", "sub"), 0o700)
	})
	info, err := os.Lstat(from)
	if err != nil {
		t.Fatal(err)
	}
	var archive bytes.Buffer
	pack := new(localPacker)
	if err := pack.pack(&archive, from, "src", info); err != nil || pack.skipped != 1 {
		t.Fatalf("%v, %d left out", err, pack.skipped)
	}
	if err := unpackLocal(&archive, landing{to, "new"}, false); err != nil {
		t.Fatal(err)
	}
	for name, mode := range map[string]fs.FileMode{
		"run.sh": 0o750, "sub/data": 0o440, "sub": fs.ModeDir | 0o500, "empty": fs.ModeDir | 0o700, "link": fs.ModeSymlink | 0o777,
	} {
		got, err := os.Lstat(filepath.Join(to, "new", name))
		if err != nil || got.Mode() != mode || got.Mode().IsRegular() && !got.ModTime().Equal(at) {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
	if text, err := os.ReadFile(filepath.Join(to, "new", "link")); err != nil || string(text) != "sub/data" {
		t.Errorf("through the link: %q, %v", text, err)
	}
}

// TestUnpacksNothingOutside refuses entries that leave the target, and kinds other than files, directories and links.
func TestUnpacksNothingOutside(t *testing.T) {
	for name, entries := range map[string][]tar.Header{
		"parent":  {{Name: "a/../../x", Typeflag: tar.TypeReg}},
		"link":    {{Name: "a/l", Typeflag: tar.TypeSymlink, Linkname: "../.."}, {Name: "a/l/x", Typeflag: tar.TypeReg}},
		"device":  {{Name: "a/x", Typeflag: tar.TypeChar}},
		"in file": {{Name: "a/f", Typeflag: tar.TypeReg}, {Name: "a/f/x", Typeflag: tar.TypeReg}},
	} {
		outside := t.TempDir()
		to := filepath.Join(outside, "to")
		if err := os.MkdirAll(filepath.Join(to, "a"), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := unpackLocal(archiveOf(t, entries), landing{to, "a"}, false); !types.Is(err, types.Precondition) || !strings.Contains(err.Error(), "free its place, or name another") {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := os.Lstat(filepath.Join(outside, "x")); err == nil {
			t.Errorf("%s: it wrote outside", name)
		}
	}
	for says, x := range map[string]struct {
		archive io.Reader
		to      string
	}{
		"receive files: ":          {strings.NewReader(strings.Repeat("no archive", 100)), t.TempDir()},
		"make the directory first": {strings.NewReader(""), filepath.Join(t.TempDir(), "missing")},
	} {
		if err := unpackLocal(x.archive, landing{x.to, "a"}, false); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%v, want %q", err, says)
		}
	}
}

// TestUnpackReplaces writes over an older file and an older link, and drops setuid without owners.
func TestUnpackReplaces(t *testing.T) {
	to := t.TempDir()
	for range 2 {
		entries := []tar.Header{{Name: "a", Typeflag: tar.TypeReg, Mode: 0o4755}, {Name: "l", Typeflag: tar.TypeSymlink, Linkname: "a"}}
		for i, name := range []string{"a", "l"} {
			if err := unpackLocal(archiveOf(t, entries[i:i+1]), landing{to, name}, false); err != nil {
				t.Fatal(err)
			}
		}
	}
	if info, err := os.Stat(filepath.Join(to, "l")); err != nil || info.Mode() != 0o755 {
		t.Errorf("%v, %v, want mode 0755", info, err)
	}
}

// archiveOf makes an archive of empty entries.
func archiveOf(t *testing.T, entries []tar.Header) io.Reader {
	t.Helper()
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, h := range entries {
		if err := w.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return &out
}
