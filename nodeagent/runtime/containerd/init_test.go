package containerd_test

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/escher-sched/escher/nodeagent"
	"github.com/escher-sched/escher/nodeagent/runtime/runtimetest"
	"github.com/escher-sched/escher/types"
)

func initTests() map[string]func(*bench) {
	return map[string]func(*bench){
		"InitReaps":             testInitReaps,
		"InitPassesOn":          testInitPassesOn,
		"InitIsMissing":         testInitIsMissing,
		"ExecIsKilledWithChild": testExecIsKilledWithChild,
		"ExecTellsItsStart":     testExecTellsItsStart,
	}
}

// testInitReaps makes the first process of a container inherit ended processes: with an init they
// are gone, without one they stay.
func testInitReaps(b *bench) {
	for _, with := range []bool{true, false} {
		c := b.container("litter")
		c.Init = with
		b.start(c)
		runtimetest.AwaitLog(b.T, c.LogPath, "littered\n")
		want := "2 zombies\n"
		if with {
			want = "0 zombies\n"
		}
		runtimetest.Await(b.T, func(ctx context.Context) (string, error) {
			var out bytes.Buffer
			_, err := b.Exec(ctx, c.ID, nodeagent.Process{Command: []string{runtimetest.Program, "zombies"}, Stdout: &out})
			if err == nil && out.String() != want {
				err = types.Errorf(types.Unavailable, "there are %q, want %q (init: %t)", out.String(), want, with)
			}
			return out.String(), err
		})
	}
}

// testInitPassesOn tests that an init passes on signals and the exit code.
func testInitPassesOn(b *bench) {
	c := b.container("exit", "7")
	c.Init = true
	b.output(c, 7)
	c = b.container("usr1")
	c.Init, c.StopSignal = true, "SIGUSR1"
	b.start(c)
	runtimetest.AwaitLog(b.T, c.LogPath, "ready\n")
	root, err := b.Root(b.ctx(), c.ID)
	b.must(err)
	if line := b.read(filepath.Join(root, "proc/1/cmdline")); !strings.HasPrefix(line, types.InitPath+"\x00") {
		b.Errorf("the first process is %q", line)
	}
	if err := os.WriteFile(filepath.Join(root, types.InitPath), nil, 0o600); err == nil {
		b.Error("the init of the machine can be written to")
	}
	b.must(b.Signal(b.ctx(), c.ID, nodeagent.StopSignal))
	if exit := b.wait(c.ID); exit.Code != 0 {
		b.Errorf("exit %+v, want that of the program", exit)
	}
	// A signal without a handler ends the program, because it is not the first process.
	c = b.container("block")
	c.Init = true
	b.start(c)
	runtimetest.AwaitLog(b.T, c.LogPath, "ready\n")
	b.must(b.Signal(b.ctx(), c.ID, syscall.SIGHUP))
	if exit := b.wait(c.ID); exit.Code != 128+int(syscall.SIGHUP) {
		b.Errorf("exit %+v, want that of the signal", exit)
	}
}

// testInitIsMissing tests that a machine without an init names a package, and starts waiting
// containers after the installation.
func testInitIsMissing(b *bench) {
	conf := b.host.Config(b.cluster, "n1")
	conf.Inits = []string{filepath.Join(b.TempDir(), "none"), filepath.Join(b.TempDir(), "init")}
	r := b.host.OpenWith(b.T, conf)
	c := b.container("exit", "4")
	c.Init = true
	_, err := r.Start(b.ctx(), c)
	b.wants(err, types.Unavailable)
	if err == nil || !strings.Contains(err.Error(), "install it there, with apt-get install tini, or leave init out") {
		b.Errorf("it says %v", err)
	}
	if list, err := r.List(b.ctx()); err != nil || len(list) != 0 {
		b.Errorf("%v is left, %v", list, err)
	}
	b.must(os.Symlink("/usr/bin/tini-static", conf.Inits[1]))
	_, err = r.Start(b.ctx(), c)
	b.must(err)
	if exit := b.wait(c.ID); exit.Code != 4 {
		b.Errorf("exit %+v", exit)
	}
}

// testExecIsKilledWithChild also kills the processes that a command started.
func testExecIsKilledWithChild(b *bench) {
	c := b.container("block")
	b.start(c)
	ctx, cancel := context.WithCancel(b.ctx())
	_, err := b.Exec(ctx, c.ID, nodeagent.Process{Command: []string{runtimetest.Program, "nurse"}, Stdout: canceller(cancel)})
	b.wants(err, types.Unavailable)
	b.nothingOf(c)
}

func testExecTellsItsStart(b *bench) {
	c := b.container("block")
	b.start(c)
	started := 0
	tell := func() { started++ }
	_, err := b.Exec(b.ctx(), c.ID, nodeagent.Process{Command: []string{runtimetest.Program, "exit", "0"}, Started: tell})
	b.must(err)
	_, err = b.Exec(b.ctx(), c.ID, nodeagent.Process{Command: []string{"/none"}, Started: tell})
	b.wants(err, types.NotFound)
	if started != 1 {
		b.Errorf("told %d times that one of them runs", started)
	}
}
