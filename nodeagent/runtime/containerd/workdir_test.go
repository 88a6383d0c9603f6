package containerd_test

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/containerd/errdefs"

	"github.com/escher-sched/escher/nodeagent"
	"github.com/escher-sched/escher/nodeagent/runtime/workdir"
	"github.com/escher-sched/escher/types"
)

func workdirTests() map[string]func(*bench) {
	return map[string]func(*bench){
		"WorkdirFiles":       testWorkdirFiles,
		"WorkdirIsPrivate":   testWorkdirIsPrivate,
		"WorkdirOfManyFiles": testWorkdirLayers,
		"WorkdirAndMounts":   testWorkdirAndMounts,
		"WorkdirIsRemoved":   testWorkdirIsRemoved,
		"WorkdirIsForgotten": testWorkdirIsForgotten,
		"WorkdirOfWrongName": testWorkdirOfWrongName,
		"WorkdirEmpty":       testWorkdirEmpty,
	}
}

// send packs a directory and loads it; it returns where containers have it.
func (b *bench) send(r nodeagent.Runtime, dir string) *types.Workdir {
	b.Helper()
	tree, err := workdir.Scan(b.ctx(), dir)
	b.must(err)
	img, err := tree.Image(b.ctx())
	b.must(err)
	lacking, err := r.Lacking(b.ctx(), img.Digests())
	b.must(err)
	var archive bytes.Buffer
	b.must(img.Write(b.ctx(), &archive, lacking))
	_, err = r.Load(b.ctx(), &archive)
	b.must(err)
	return &types.Workdir{Image: img.Name, Target: "/my/code"}
}

// write makes a file below a directory, and those above it.
func (b *bench) write(dir, name, text string, mode os.FileMode) {
	b.Helper()
	path := filepath.Join(dir, name)
	b.must(os.MkdirAll(filepath.Dir(path), 0o700))
	b.must(os.WriteFile(path, []byte(text), mode))
}

// within returns a container that runs a verb in a workdir.
func (b *bench) within(d *types.Workdir, verb ...string) nodeagent.Container {
	c := b.container(verb...)
	c.Workdir, c.Dir = d, d.Target
	return c
}

func testWorkdirFiles(b *bench) {
	dir := b.TempDir()
	b.write(dir, "a", "one\n", 0o600)
	b.write(dir, "deep/er/b", "two\n", 0o640)
	b.must(os.Symlink("deep/er/b", filepath.Join(dir, "link")))
	b.must(os.Symlink("loop", filepath.Join(dir, "loop")))
	d := b.send(b.Runtime, dir)
	for _, user := range []string{"", "1000:1000"} {
		c := b.within(d, "cat", "a", "link")
		c.User = user
		if got := b.output(c, 0); got != "one\ntwo\n" {
			b.Errorf("user %q: got %q, want both files", user, got)
		}
		c = b.within(d, "append", "deep/er/new")
		c.User, c.ReadOnlyRoot = user, true
		b.output(c, 0)
		c = b.within(d, "append", "new")
		c.User = user
		b.output(c, 0)
	}
	c := b.within(d, "id")
	if got := b.output(c, 0); !strings.Contains(got, "dir=/my/code") {
		b.Errorf("got %q, want it in its workdir", got)
	}
}

// testWorkdirIsPrivate tests that a container neither sees nor keeps the changes of another.
func testWorkdirIsPrivate(b *bench) {
	dir := b.TempDir()
	b.write(dir, "a", "", 0o600)
	d := b.send(b.Runtime, dir)
	first, second := b.within(d, "block"), b.within(d, "block")
	b.start(first)
	b.start(second)
	program := first.Command[0]
	for id, path := range map[string]string{first.ID: "/my/code/a", second.ID: "/my/code/b"} {
		code, err := b.Exec(b.ctx(), id, nodeagent.Process{Command: []string{program, "append", path}})
		if err != nil || code != 0 {
			b.Errorf("write %s: %d, %v", path, code, err)
		}
	}
	var out strings.Builder
	code, err := b.Exec(b.ctx(), second.ID, nodeagent.Process{Command: []string{program, "cat", "/my/code/a"}, Stdout: &out})
	if err != nil || code != 0 || out.String() != "" {
		b.Errorf("the other container has %q, %d, %v; want the file as it was sent", out.String(), code, err)
	}
	if text := b.read(filepath.Join(dir, "a")); text != "" {
		b.Errorf("the sent directory has %q", text)
	}
	// A start of a running container leaves its files alone.
	b.start(first)
	out.Reset()
	code, err = b.Exec(b.ctx(), first.ID, nodeagent.Process{Command: []string{program, "cat", "/my/code/a"}, Stdout: &out})
	if err != nil || code != 0 || out.String() != "ran\n" {
		b.Errorf("after another start: %q, %d, %v; want what it wrote", out.String(), code, err)
	}
}

// testWorkdirLayers tests a directory of as many layers as there can be, and a second version of it.
func testWorkdirLayers(b *bench) {
	dir := b.TempDir()
	large := strings.Repeat("0123456789abcdef", 10<<20/16)
	for _, name := range strings.Split("0123456789", "") {
		b.write(dir, "large/"+name, name+large, 0o600)
	}
	for i := range 300 {
		b.write(dir, filepath.Join("small", string(rune('a'+i%26)), string(rune('a'+i/26))), "first\n", 0o600)
	}
	d := b.send(b.Runtime, dir)
	b.write(dir, "small/b/c", "second\n", 0o600)
	b.must(os.Remove(filepath.Join(dir, "small/c/d")))
	next := b.send(b.Runtime, dir)
	if got := b.output(b.within(d, "cat", "small/b/c", "small/c/d", "small/z/a"), 0); got != "first\nfirst\nfirst\n" {
		b.Errorf("the first version has %q", got)
	}
	if got := b.output(b.within(next, "cat", "small/b/c", "small/z/a"), 0); got != "second\nfirst\n" {
		b.Errorf("the second version has %q", got)
	}
	if got := b.output(b.within(next, "cat", "small/c/d"), 1); !strings.Contains(got, "no such file") {
		b.Errorf("a deleted file: %q", got)
	}
}

// testWorkdirAndMounts tests mounts above and below the workdir.
func testWorkdirAndMounts(b *bench) {
	dir, outer, inner := b.TempDir(), b.TempDir(), b.TempDir()
	b.write(dir, "a", "sent\n", 0o600)
	b.write(outer, "o", "outer\n", 0o600)
	b.write(inner, "i", "inner\n", 0o600)
	d := b.send(b.Runtime, dir)
	c := b.within(d, "cat", "a", "data/i", "/my/o")
	c.Mounts = []nodeagent.Mount{{Source: outer, Target: "/my"}, {Source: inner, Target: "/my/code/data"}}
	if got := b.output(c, 0); got != "sent\ninner\nouter\n" {
		b.Errorf("got %q, want a file of each", got)
	}
}

func testWorkdirIsRemoved(b *bench) {
	dir := b.TempDir()
	b.write(dir, "a", "", 0o600)
	c := b.within(b.send(b.Runtime, dir), "exit", "0")
	b.start(c)
	b.wait(c.ID)
	service := b.raw().SnapshotService("overlayfs")
	key := c.ID + "-workdir"
	if _, err := service.Stat(b.ctx(), key); err != nil {
		b.Errorf("its copy: %v, want one", err)
	}
	b.must(b.Remove(b.ctx(), c.ID))
	if _, err := service.Stat(b.ctx(), key); !errdefs.IsNotFound(err) {
		b.Errorf("after its removal: %v, want no copy", err)
	}
}

// testWorkdirIsForgotten tests that images that no container uses are deleted when another arrives.
func testWorkdirIsForgotten(b *bench) {
	conf := b.host.Config(b.cluster, "n1")
	conf.KeepWorkdir = time.Nanosecond
	r := b.host.OpenWith(b.T, conf)
	dirs := [3]string{b.TempDir(), b.TempDir(), b.TempDir()}
	for i, dir := range dirs {
		b.write(dir, "a", b.cluster+string(rune('0'+i)), 0o600)
	}
	used, unused := b.send(b.Runtime, dirs[0]), b.send(b.Runtime, dirs[1])
	lastUse := func() time.Time {
		record, err := b.raw().ImageService().Get(b.ctx(), used.Image)
		b.must(err)
		return record.UpdatedAt
	}
	sent := lastUse()
	c := b.within(used, "block")
	_, err := r.Start(b.ctx(), c)
	b.must(err)
	started := lastUse()
	if !started.After(sent) {
		b.Errorf("its last use is %s after the start of a container, as before", started)
	}
	b.send(r, dirs[2])
	if last := lastUse(); !last.After(started) {
		b.Errorf("its last use is %s, and a container runs in it still", last)
	}
	if _, err := b.Layers(b.ctx(), used.Image); err != nil {
		b.Errorf("the image of a running container: %v, want it kept", err)
	}
	_, err = b.Layers(b.ctx(), unused.Image)
	b.wants(err, types.NotFound)
}

func testWorkdirOfWrongName(b *bench) {
	dir := b.TempDir()
	b.write(dir, "a", b.cluster, 0o600)
	tree, err := workdir.Scan(b.ctx(), dir)
	b.must(err)
	img, err := tree.Image(b.ctx())
	b.must(err)
	var archive, forged bytes.Buffer
	b.must(img.Write(b.ctx(), &archive, img.Digests()))
	wrong := types.WorkdirRepository + "@sha256:" + strings.Repeat("0", 64)
	files, out := tar.NewReader(&archive), tar.NewWriter(&forged)
	for {
		h, err := files.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		b.must(err)
		text, err := io.ReadAll(files)
		b.must(err)
		if h.Name == "index.json" {
			b.must(json.Unmarshal(text, new(any)))
			text = bytes.Replace(text, []byte(img.Name), []byte(wrong), 1)
		}
		h.Size = int64(len(text))
		b.must(out.WriteHeader(h))
		_, err = out.Write(text)
		b.must(err)
	}
	b.must(out.Close())
	_, err = b.Load(b.ctx(), &forged)
	b.wants(err, types.Invalid)
	_, err = b.Layers(b.ctx(), wrong)
	b.wants(err, types.NotFound)
}

func testWorkdirEmpty(b *bench) {
	d := b.send(b.Runtime, b.TempDir())
	c := b.within(d, "append", "new")
	c.User = "1000"
	b.output(c, 0)
	b.must(b.Remove(context.Background(), c.ID))
}
