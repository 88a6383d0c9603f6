package containerd_test

import (
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/escher-sched/escher/nodeagent"
	"github.com/escher-sched/escher/nodeagent/runtime/runtimetest"
	"github.com/escher-sched/escher/types"
)

func execTests() map[string]func(*bench) {
	return map[string]func(*bench){
		"ExecStreams":        testExecStreams,
		"ExecSlowReader":     testExecSlowReader,
		"ExecTerminal":       testExecTerminal,
		"ExecUserDirEnv":     testExecUserDirEnv,
		"ExecIsKilled":       testExecIsKilled,
		"ExecIsStuck":        testExecIsStuck,
		"ExecEndsBeforeLine": testExecLeavesInput,
		"ExecLeavesNothing":  testExecLeavesNothing,
		"RootOfMounts":       testRootOfMounts,
	}
}

// inside returns a running container, and a function that runs a verb in it.
func (b *bench) inside() (nodeagent.Container, func(p nodeagent.Process, verb ...string) (int, error)) {
	b.Helper()
	c := b.container("block")
	b.start(c)
	return c, func(p nodeagent.Process, verb ...string) (int, error) {
		p.Command = append([]string{runtimetest.Program}, verb...)
		return b.Exec(b.ctx(), c.ID, p)
	}
}

func testExecStreams(b *bench) {
	_, exec := b.inside()
	text := strings.Repeat("a line of some length, to fill pipes with\n", 10_000)
	var out, errs bytes.Buffer
	code, err := exec(nodeagent.Process{Stdin: strings.NewReader(text), Stdout: &out, Stderr: &errs}, "copy", "7")
	b.must(err)
	if code != 7 || out.String() != text || errs.String() != "copied\n" {
		b.Errorf("code %d, %d bytes, %q; want 7, %d bytes, and that it copied", code, out.Len(), errs.String(), len(text))
	}
}

// testExecSlowReader reads the last output after the process has ended.
func testExecSlowReader(b *bench) {
	c, exec := b.inside()
	text := strings.Repeat("a line of some length, to fill pipes with\n", 10_000)
	slow := &slowWriter{before: len(text) * 3 / 4, wait: func() { b.alone(c) }}
	code, err := exec(nodeagent.Process{Stdin: strings.NewReader(text), Stdout: slow}, "copy", "0")
	b.must(err)
	if code != 0 || slow.Len() != len(text) {
		b.Errorf("code %d, %d bytes; want %d", code, slow.Len(), len(text))
	}
}

// slowWriter waits after that many bytes.
type slowWriter struct {
	bytes.Buffer
	before int
	wait   func()
}

func (w *slowWriter) Write(p []byte) (int, error) {
	if w.Len() < w.before && w.Len()+len(p) >= w.before {
		w.wait()
	}
	return w.Buffer.Write(p)
}

func testExecTerminal(b *bench) {
	_, exec := b.inside()
	sizes := make(chan nodeagent.Size, 1)
	sizes <- nodeagent.Size{Width: 81, Height: 25}
	in, write := io.Pipe()
	read, out := io.Pipe()
	ended := make(chan int, 1)
	go func() {
		code, err := exec(nodeagent.Process{TTY: true, Stdin: in, Stdout: out, Resize: sizes}, "terminal")
		if err != nil {
			b.Error(err)
		}
		ended <- code
		_ = out.Close()
	}()
	// It prints its size after each change, and ends with its input.
	var seen strings.Builder
	for buffer := make([]byte, 256); !strings.Contains(seen.String(), "81x25 xterm"); {
		n, err := read.Read(buffer)
		b.must(err)
		seen.Write(buffer[:n])
	}
	sizes <- nodeagent.Size{Width: 100, Height: 50}
	for buffer := make([]byte, 256); !strings.Contains(seen.String(), "100x50 xterm"); {
		n, err := read.Read(buffer)
		b.must(err)
		seen.Write(buffer[:n])
	}
	go func() { _, _ = io.Copy(io.Discard, read) }()
	_, err := write.Write([]byte{4}) // Ctrl-D
	b.must(err)
	if code := <-ended; code != 0 {
		b.Errorf("code %d; it said %q", code, seen.String())
	}
	_ = write.Close()
}

func testExecUserDirEnv(b *bench) {
	_, exec := b.inside()
	var out bytes.Buffer
	code, err := exec(nodeagent.Process{Stdout: &out, User: "1000:100", Dir: "/tmp", Env: []string{"TEST=a b"}}, "id")
	b.must(err)
	if want := "uid=1000 gid=100 dir=/tmp TEST=a b\n"; code != 0 || out.String() != want {
		b.Errorf("code %d, %q; want %q", code, out.String(), want)
	}
	_, err = exec(nodeagent.Process{User: "nobody-there"}, "id")
	b.wants(err, types.Invalid)
}

func testExecIsKilled(b *bench) {
	c := b.container("block")
	b.start(c)
	for range 3 {
		ctx, cancel := context.WithCancel(b.ctx())
		// It prints that it is ready, usually before containerd reports its start.
		_, err := b.Exec(ctx, c.ID, nodeagent.Process{Command: []string{runtimetest.Program, "deaf"}, Stdout: canceller(cancel)})
		b.wants(err, types.Unavailable)
		b.alone(c)
	}
	if usage, err := b.Usage(b.ctx(), c.ID); err != nil || *usage.Processes == 0 {
		b.Errorf("uses %+v, %v; want the container to run on", usage, err)
	}
	b.nothingOf(c)
}

// canceller is called at each write.
type canceller func()

func (c canceller) Write(p []byte) (int, error) {
	c()
	return len(p), nil
}

// testExecLeavesInput ends without input.
func testExecLeavesInput(b *bench) {
	c, exec := b.inside()
	in, write := io.Pipe()
	defer func() { _ = write.Close() }()
	if code, err := exec(nodeagent.Process{Stdin: in}, "exit", "3"); err != nil || code != 3 {
		b.Errorf("code %d, %v; want 3", code, err)
	}
	b.nothingOf(c)
}

func testExecLeavesNothing(b *bench) {
	c, exec := b.inside()
	for range 3 {
		_, err := exec(nodeagent.Process{Stdin: strings.NewReader("x"), Stdout: io.Discard}, "copy", "0")
		b.must(err)
	}
	_, err := b.Exec(b.ctx(), c.ID, nodeagent.Process{Command: []string{"there-is-none"}})
	b.wants(err, types.NotFound)
	b.nothingOf(c)
}

// nothingOf fails the test if more than one process of the container runs, or a pipe of another is
// left.
func (b *bench) nothingOf(c nodeagent.Container) {
	b.Helper()
	left, err := filepath.Glob(filepath.Join(b.host.Dir, "fifo", "*"))
	b.must(err)
	if len(left) > 0 {
		b.Errorf("pipes are left: %v", left)
	}
	b.alone(c)
}

// alone waits until the container has one process.
func (b *bench) alone(c nodeagent.Container) {
	b.Helper()
	runtimetest.Await(b.T, func(context.Context) (list string, err error) {
		if list = b.cgroup(c.ID, "pids", "cgroup.procs", "cgroup.procs"); strings.Contains(list, "\n") {
			err = types.Errorf(types.Unavailable, "processes are left: %q", list)
		}
		return list, err
	})
}

func testRootOfMounts(b *bench) {
	dir := b.TempDir()
	b.must(os.WriteFile(filepath.Join(dir, "file"), []byte("mounted\n"), 0o600))
	c := b.container("block")
	c.Mounts = []nodeagent.Mount{{Source: dir, Target: "/data"}}
	b.start(c)
	root, err := b.Root(b.ctx(), c.ID)
	b.must(err)
	if got := b.read(filepath.Join(root, "data/file")); got != "mounted\n" {
		b.Errorf("file has %q, want what is mounted", got)
	}
	if _, err := os.Stat(filepath.Join(root, runtimetest.Program)); err != nil {
		b.Error(err)
	}
}
