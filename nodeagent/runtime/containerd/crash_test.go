package containerd_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	tasks "github.com/containerd/containerd/api/services/tasks/v1"
	"github.com/containerd/containerd/v2/client"
	"github.com/containerd/containerd/v2/core/containers"
	"github.com/containerd/containerd/v2/pkg/cio"

	"github.com/escher-sched/escher/nodeagent"
	"github.com/escher-sched/escher/nodeagent/runtime/containerd"
	"github.com/escher-sched/escher/nodeagent/runtime/runtimetest"
	"github.com/escher-sched/escher/types"
)

func crashTests() map[string]func(*bench) {
	return map[string]func(*bench){
		"DaemonKilled":           testDaemonKilled,
		"EndWhileDaemonIsAway":   testEndWhileDaemonIsAway,
		"ShimKilled":             testShimKilled,
		"ShimKilledOfStuck":      testShimKilledOfStuck,
		"ShimAndRecordLost":      testShimAndRecordLost,
		"DirectoriesLeft":        testDirectoriesLeft,
		"StartAfterCrash":        testStartAfterCrash,
		"StartCutShort":          testStartCutShort,
		"StartedUnsaid":          testStartedUnsaid,
		"StartedMeanwhile":       testStartedMeanwhile,
		"RemoveOfCreated":        testRemoveOfCreated,
		"StartOfForgotten":       testForgotten,
		"EndForgotten":           testEndForgotten,
		"RunsOnceAcrossRestarts": testRunsOnce,
		"IDOfAnotherNode":        testIDOfAnotherNode,
		"PurgeOfOneCluster":      testPurgeOfOneCluster,
	}
}

// raw returns containerd's own client.
func (b *bench) raw() *client.Client {
	b.Helper()
	c, err := client.New(b.host.Address, client.WithDefaultNamespace(b.host.Namespace))
	b.must(err)
	b.Cleanup(func() { _ = c.Close() })
	return c
}

// running waits until a container is listed as running, and returns it.
func (b *bench) running(id string) nodeagent.Observed {
	b.Helper()
	return runtimetest.Await(b.T, func(ctx context.Context) (nodeagent.Observed, error) {
		seen, err := b.find(ctx, id)
		if err == nil && (!seen.Running || seen.Exit != nil) {
			err = types.Errorf(types.Precondition, "container %s is listed as %+v, want it running", id, seen)
		}
		return seen, err
	})
}

// shim returns the process id of a container's shim.
func (b *bench) shim(id string) int {
	b.Helper()
	for pid := range b.host.Processes(b.T, "-id "+id) {
		n, err := strconv.Atoi(pid)
		b.must(err)
		return n
	}
	b.Fatalf("container %s has no shim", id)
	return 0
}

func testDaemonKilled(b *bench) {
	c := b.container("block", "hello")
	b.start(c)
	runtimetest.AwaitLog(b.T, c.LogPath, "hello")
	changes := b.Changes(b.Context())
	failed := make(chan error, 1)
	go func() {
		_, err := b.Wait(b.Context(), c.ID)
		failed <- err
	}()
	b.host.Kill(b.T)
	b.wants(<-failed, types.Unavailable)
	b.closes(changes)
	seen := b.running(c.ID)
	if seen.Attempt != c.Attempt {
		b.Errorf("attempt is %+v, want %+v", seen.Attempt, c.Attempt)
	}
	b.start(c) // It does nothing.
	b.must(b.Signal(b.Context(), c.ID, syscall.SIGTERM))
	if exit := b.wait(c.ID); exit.Code != 0 {
		b.Errorf("exit %+v, want that of the program", exit)
	}
}

// closes fails the test if changes do not end with the connection.
func (b *bench) closes(changes <-chan struct{}) {
	b.Helper()
	limit := time.After(patience)
	for {
		select {
		case _, ok := <-changes:
			if !ok {
				return
			}
		case <-limit:
			b.Fatal("changes go on without a daemon")
		}
	}
}

func testEndWhileDaemonIsAway(b *bench) {
	c := b.container("block")
	b.start(c)
	task, err := b.raw().TaskService().Get(b.Context(), &tasks.GetRequest{ContainerID: c.ID})
	b.must(err)
	// A stopped daemon does not answer.
	daemon := b.host.PID(b.T)
	b.must(syscall.Kill(daemon, syscall.SIGSTOP))
	b.kill(int(task.Process.Pid))
	b.kill(daemon)
	exit := runtimetest.Await(b.T, func(ctx context.Context) (nodeagent.Exit, error) { return b.Wait(ctx, c.ID) })
	if exit.Code != 137 || exit.OOMKilled || exit.Reason != "" {
		b.Errorf("exit %+v, want the shim's record of it", exit)
	}
}

func testShimKilled(b *bench) {
	c := b.container("block")
	b.start(c)
	task, err := b.raw().TaskService().Get(b.Context(), &tasks.GetRequest{ContainerID: c.ID})
	b.must(err)
	socket := strings.TrimPrefix(b.read(filepath.Join(b.host.Dir,
		"state/io.containerd.runtime.v2.task", b.host.Namespace, c.ID, "address")), "unix://")
	b.kill(b.shim(c.ID))
	// At first its end is not known.
	exit := runtimetest.Await(b.T, func(ctx context.Context) (nodeagent.Exit, error) {
		exit, err := b.Wait(ctx, c.ID)
		if err != nil && !types.Is(err, types.Unavailable) {
			b.Errorf("wait: %v, want Unavailable or the end", err)
		}
		return exit, err
	})
	if exit.Code != 137 || !exit.Lost || exit.Reason == "" {
		b.Errorf("exit %+v, want 137 with a reason", exit)
	}
	// A process that has ended, and is not waited for, has no command line.
	command, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", task.Process.Pid))
	if err == nil && len(command) > 0 {
		b.Errorf("it is said to have ended, and its process runs: %s", command)
	}
	seen, err := b.find(b.Context(), c.ID)
	if err != nil || seen.Running || seen.Exit == nil || *seen.Exit != exit {
		b.Errorf("listed as %+v, %v; want %+v", seen, err, exit)
	}
	b.start(c)
	if again := b.wait(c.ID); again != exit {
		b.Errorf("exit %+v, then %+v", exit, again)
	}
	b.must(b.Remove(b.Context(), c.ID))
	if _, err := os.Stat(socket); !os.IsNotExist(err) {
		b.Errorf("socket %s of the shim: %v, want it removed", socket, err)
	}
}

// testShimAndRecordLost removes the shim and containerd's record of it, so that containerd kills
// nothing: the process runs on, unknown to containerd.
func testShimAndRecordLost(b *bench) {
	c := b.container("block")
	b.start(c)
	task, err := b.raw().TaskService().Get(b.Context(), &tasks.GetRequest{ContainerID: c.ID})
	b.must(err)
	daemon := b.host.PID(b.T)
	b.must(syscall.Kill(daemon, syscall.SIGSTOP))
	b.kill(b.shim(c.ID))
	bundle := filepath.Join(b.host.Dir, "state/io.containerd.runtime.v2.task", b.host.Namespace, c.ID)
	b.must(syscall.Unmount(filepath.Join(bundle, "rootfs"), syscall.MNT_DETACH))
	b.must(os.RemoveAll(bundle))
	b.kill(daemon)
	exit := runtimetest.Await(b.T, func(ctx context.Context) (nodeagent.Exit, error) { return b.Wait(ctx, c.ID) })
	if command, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", task.Process.Pid)); err == nil && len(command) > 0 {
		b.Errorf("it is said to have ended, %+v, and its process runs: %s", exit, command)
	}
	b.must(b.Remove(b.Context(), c.ID))
}

// testDirectoriesLeft makes the directories that a daemon leaves which is killed while it removes
// tasks, next to one in use.
func testDirectoriesLeft(b *bench) {
	c := b.container("block")
	b.start(c)
	unknown, half := b.bundle("nobodys"), b.bundle(".halfremoved")
	ctx, cancel := context.WithCancel(b.Context())
	defer cancel()
	b.Changes(ctx)
	for _, dir := range []string{unknown, half} {
		runtimetest.Await(b.T, func(context.Context) (struct{}, error) {
			if _, err := os.Stat(dir); !os.IsNotExist(err) {
				return struct{}{}, types.Errorf(types.Unavailable, "%s is there: %v", dir, err)
			}
			return struct{}{}, nil
		})
	}
	runtimetest.AwaitLog(b.T, c.LogPath, "ready")
	b.running(c.ID)
	b.must(b.Signal(b.Context(), c.ID, syscall.SIGTERM))
	if exit := b.wait(c.ID); exit.Code != 0 {
		b.Errorf("exit %+v, want that of the program", exit)
	}
}

// testStartAfterCrash creates each state that Start may leave when the agent dies during it, and
// starts again.
func testStartAfterCrash(b *bench) {
	ctx, raw := b.Context(), b.raw()
	dir := b.TempDir()
	for name, crash := range map[string]func(id string){
		"before the task": func(string) {},
		"task created": func(id string) {
			c, err := raw.LoadContainer(ctx, id)
			b.must(err)
			_, err = c.NewTask(ctx, cio.NullIO)
			b.must(err)
		},
		"task ended before it was started": func(id string) {
			c, err := raw.LoadContainer(ctx, id)
			b.must(err)
			made, err := c.NewTask(ctx, cio.NullIO)
			b.must(err)
			ended, err := made.Wait(ctx)
			b.must(err)
			b.kill(int(made.Pid()))
			<-ended
		},
		"no container, but its file system": func(id string) {
			b.must(raw.ContainerService().Delete(ctx, id))
		},
	} {
		c := b.container("append", "/data/"+name)
		c.Mounts = []nodeagent.Mount{{Source: dir, Target: "/data"}}
		b.recordOnly(c, raw)
		crash(c.ID)
		if seen, err := b.find(ctx, c.ID); err == nil && (seen.Running || seen.Exit != nil) {
			b.Errorf("%s: listed as %+v, want neither running nor ended", name, seen)
		}
		b.must(os.WriteFile(c.LogPath, []byte("runc create failed\n"), 0o600))
		b.start(c)
		b.start(c)
		if exit := b.wait(c.ID); exit.Code != 0 {
			b.Errorf("%s: exit %+v, want 0", name, exit)
		}
		if got := b.read(filepath.Join(dir, name)); got != "ran\n" {
			b.Errorf("%s: it ran %q, want once", name, got)
		}
		// The log exists before the process starts.
		if got := b.read(c.LogPath); name != "task created" && !strings.HasPrefix(name, "no container") && got != "" {
			b.Errorf("%s: it wrote nothing, and its log is %q", name, got)
		}
	}
}

// testStartCutShort wakes a waiting process and vanishes before its answer, as runc does when
// containerd is killed: the end that follows is not the program's.
func testStartCutShort(b *bench) {
	c := b.container("block")
	task, fifo := b.createdOnly(c)
	pid := int(task.Pid())
	// It may not wait there yet: then it does not notice.
	runtimetest.Await(b.T, func(ctx context.Context) (struct{}, error) {
		_ = syscall.Kill(pid, syscall.SIGSTOP) // It may just have ended.
		fd, err := syscall.Open(fifo, syscall.O_RDONLY|syscall.O_NONBLOCK, 0)
		b.must(err)
		b.must(syscall.Close(fd))
		_ = syscall.Kill(pid, syscall.SIGCONT)
		if status, err := task.Status(ctx); err != nil || status.Status != client.Stopped {
			return struct{}{}, types.Errorf(types.Unavailable, "it is %s, %w", status.Status, err)
		}
		return struct{}{}, nil
	})
	for range 2 {
		if exit := b.wait(c.ID); exit.Code != 137 || !exit.Lost || !strings.HasPrefix(exit.Reason, "not known how it ended") {
			b.Errorf("exit %+v, want it not to be known", exit)
		}
	}
	if seen := runtimetest.Await(b.T, func(ctx context.Context) (nodeagent.Observed, error) { return b.find(ctx, c.ID) }); seen.Exit == nil || seen.Exit.Code != 137 {
		b.Errorf("listed as %+v, want its end not to be known", seen)
	}
}

// createdOnly creates the state of a container just before the start of its process. It returns the
// task, and the FIFO at which the process waits.
func (b *bench) createdOnly(c nodeagent.Container) (client.Task, string) {
	b.Helper()
	raw, ctx := b.raw(), b.Context()
	b.recordOnly(c, raw)
	made, err := raw.LoadContainer(ctx, c.ID)
	b.must(err)
	task, err := made.NewTask(ctx, cio.NullIO)
	b.must(err)
	_, err = raw.ContainerService().Update(ctx, containers.Container{
		ID: c.ID, Labels: map[string]string{"escher/started": time.Now().Format(time.RFC3339Nano)},
	}, "labels.escher/started")
	b.must(err)
	return task, filepath.Join("/run/containerd/runc", b.host.Namespace, c.ID, "exec.fifo")
}

// testStartedUnsaid wakes the process of a container like a runc that is then killed: containerd
// does not know that it runs, and no call starts it again.
func testStartedUnsaid(b *bench) {
	c := b.container("block")
	task, fifo := b.createdOnly(c)
	if seen, err := b.find(b.Context(), c.ID); err != nil || seen.Running {
		b.Errorf("listed as %+v, %v; want it to wait for its start", seen, err)
	}
	_, err := os.ReadFile(fifo) // which waits for the process
	b.must(err)
	b.running(c.ID)
	b.start(c) // which does not wait for its end
	if status, err := task.Status(b.Context()); err != nil || status.Status != client.Created {
		b.Errorf("containerd says %+v, %v: there is nothing to tell apart", status, err)
	}
	// It is not known when it handles other signals.
	b.must(b.Signal(b.Context(), c.ID, syscall.SIGKILL))
	if exit := b.wait(c.ID); exit.Code != 137 || exit.Lost {
		b.Errorf("exit %+v, want that of the program", exit)
	}
	b.start(c)
	if exit := b.wait(c.ID); exit.Code != 137 || exit.Lost {
		b.Errorf("exit %+v after another start, want that of the program", exit)
	}
}

// testStartedMeanwhile lets an earlier call wake a process while another waits to do so: the other
// fails when the process has ended, and does not start it again.
func testStartedMeanwhile(b *bench) {
	dir := b.TempDir()
	c := b.container("append", "/data/runs")
	c.Mounts = []nodeagent.Mount{{Source: dir, Target: "/data"}}
	_, fifo := b.createdOnly(c)
	// runc waits at the path, the process at the renamed file.
	was := fifo + ".was"
	b.must(os.Rename(fifo, was))
	b.must(syscall.Mkfifo(fifo, 0o622))
	failed := make(chan error, 1)
	go func() { failed <- b.Start(b.ctx(), c) }()
	runtimetest.Await(b.T, func(context.Context) (struct{}, error) {
		for _, command := range b.host.Processes(b.T, c.ID) {
			if strings.Contains(command, " start "+c.ID) {
				return struct{}{}, nil
			}
		}
		return struct{}{}, types.Errorf(types.Unavailable, "no program starts it")
	})
	_, err := os.ReadFile(was)
	b.must(err)
	b.wants(<-failed, types.Unavailable)
	runtimetest.Await(b.T, func(ctx context.Context) (struct{}, error) { return struct{}{}, b.Start(ctx, c) })
	if exit := b.wait(c.ID); exit.Code != 0 || exit.Lost {
		b.Errorf("exit %+v, want that of the program", exit)
	}
	if got := b.read(filepath.Join(dir, "runs")); got != "ran\n" {
		b.Errorf("it ran %q, want once", got)
	}
}

func testRemoveOfCreated(b *bench) {
	c, raw := b.container("block"), b.raw()
	b.recordOnly(c, raw)
	made, err := raw.LoadContainer(b.Context(), c.ID)
	b.must(err)
	_, err = made.NewTask(b.Context(), cio.NullIO)
	b.must(err)
	b.must(b.Remove(b.Context(), c.ID))
	if seen, err := b.find(b.Context(), c.ID); !types.Is(err, types.NotFound) {
		b.Errorf("listed as %+v, %v; want it removed", seen, err)
	}
}

// recordOnly creates the state of a container before its task is made.
func (b *bench) recordOnly(c nodeagent.Container, raw *client.Client) {
	b.Helper()
	first := c
	first.Command = []string{c.Command[0], "exit", "0"}
	b.start(first)
	b.wait(c.ID)
	_, err := raw.TaskService().Delete(b.Context(), &tasks.DeleteTaskRequest{ContainerID: c.ID})
	b.must(err)
	record, err := raw.ContainerService().Get(b.Context(), c.ID)
	b.must(err)
	delete(record.Labels, "escher/started")
	made, err := raw.LoadContainer(b.Context(), c.ID)
	b.must(err)
	spec, err := made.Spec(b.Context())
	b.must(err)
	spec.Process.Args = c.Command
	b.must(made.Update(b.Context(), client.UpdateContainerOpts(client.WithSpec(spec))))
	_, err = raw.ContainerService().Update(b.Context(), containers.Container{ID: c.ID, Labels: record.Labels}, "labels")
	b.must(err)
}

func testRunsOnce(b *bench) {
	dir := b.TempDir()
	c := b.container("append", "/data/runs")
	c.Mounts = []nodeagent.Mount{{Source: dir, Target: "/data"}}
	b.start(c)
	b.wait(c.ID)
	for range 3 {
		_, err := b.host.Open(b.T, b.cluster, "n1").Start(b.Context(), c)
		b.must(err)
	}
	b.host.Kill(b.T)
	runtimetest.Await(b.T, func(ctx context.Context) (struct{}, error) { return struct{}{}, b.Start(ctx, c) })
	b.wait(c.ID)
	if got := b.read(filepath.Join(dir, "runs")); got != "ran\n" {
		b.Errorf("it ran %q, want once", got)
	}
}

func testIDOfAnotherNode(b *bench) {
	c := b.container("block")
	b.start(c)
	other := b.host.Open(b.T, b.cluster, "n2")
	_, err := other.Start(b.Context(), c)
	b.wants(err, types.Invalid)
}

func testPurgeOfOneCluster(b *bench) {
	mine := b.container("block")
	b.start(mine)
	other := newBench(b.T, b.host)
	kept := other.container("block")
	other.start(kept)
	b.must(containerd.Purge(b.Context(), b.host.Address, b.host.Namespace, b.cluster))
	if list, err := b.List(b.Context()); err != nil || len(list) > 0 {
		b.Errorf("listed %+v, %v; want nothing", list, err)
	}
	other.running(kept.ID)
}
