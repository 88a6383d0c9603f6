package containerd

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/escher-sched/escher/nodeagent"
	"github.com/escher-sched/escher/nodeagent/output/tasklog"
	"github.com/escher-sched/escher/nodeagent/runtime/attach"
)

// A container writes to two pipes, which its logger reads. If only the logger had them open, its
// end would kill the next writer by SIGPIPE. So the agent also has them open while it runs, and
// starts another logger if none reads. A logger locks the pipes that it reads: there is no other
// way to tell.

// containerd's shim passes no input to a container whose output goes to a logger. So a container
// with an input or a terminal has named pipes: see package attach. The shim has all of them open, so
// the process notices no restart of the agent.

// namedPipes is the identity of the output of such a container.
const namedPipes = "named"

// readEvery is the interval of checks for a reader. A pipe holds 64 KiB, so few programs have to
// wait for it.
const readEvery = 500 * time.Millisecond

// standardStreams returns the descriptors of standard output and error.
func standardStreams() []int { return []int{1, 2} }

// outputs are the pipes of a runtime's containers. The zero value is ready.
type outputs struct {
	logger Logger

	mu   sync.Mutex
	held map[string]*output
	// stop ends the watch; nil while there is none.
	stop chan struct{}
	over sync.WaitGroup
}

// output has the pipes of one container.
type output struct {
	// pipes are open for reading, but never read here.
	pipes []*os.File
	// arg is the argument of its logger.
	arg string
	// starting reports whether a logger that this process started is running.
	starting bool
	// named reports whether the pipes are named ones, which containerd's shim keeps open.
	named bool
}

// pipesOf opens the pipes to which the first process of a container writes, and returns their
// identity. Both are empty if the process has no pipes.
func pipesOf(pid uint32) (pipes []*os.File, identity string) {
	var names []string
	for _, fd := range standardStreams() {
		f, name := openPipe(fmt.Sprintf("/proc/%d/fd/%d", pid, fd))
		if f == nil {
			closeAll(pipes)
			return nil, ""
		}
		pipes, names = append(pipes, f), append(names, name)
	}
	return pipes, strings.Join(names, " ")
}

// openPipe opens a pipe of another process, by the link to its descriptor; nil if it is not a pipe.
func openPipe(link string) (f *os.File, name string) {
	name, err := os.Readlink(link)
	if err != nil || !strings.HasPrefix(name, "pipe:") {
		return nil, ""
	}
	fd, err := unix.Open(link, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, ""
	}
	f = os.NewFile(uintptr(fd), name)
	if now, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", fd)); err != nil || now != name {
		f.Close() // The descriptor changed in between.
		return nil, ""
	}
	return f, name
}

// find opens the pipes of a running container by their identity, from its process or its shim.
func (r *Runtime) find(id string, pid uint32, identity string) []*os.File {
	if identity == namedPipes {
		return attach.OpenOutput(r.pipesDir(id))
	}
	if pipes, now := pipesOf(pid); now == identity {
		return pipes
	} else {
		closeAll(pipes)
	}
	for _, s := range r.shims() {
		if s.id == id {
			return pipesAmong(s.pid, strings.Fields(identity))
		}
	}
	return nil
}

// pipesAmong opens the pipes of a process that have these names.
func pipesAmong(pid int, names []string) []*os.File {
	links, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid)) // a good pattern has no error
	found := make([]*os.File, len(names))
	for _, link := range links {
		target, _ := os.Readlink(link)
		for i, name := range names {
			if target == name && found[i] == nil {
				found[i], _ = openPipe(link)
			}
		}
	}
	for _, f := range found {
		if f == nil {
			closeAll(found)
			return nil
		}
	}
	return found
}

func closeAll(files []*os.File) {
	for _, f := range files {
		if f != nil {
			f.Close()
		}
	}
}

// holds reports whether the pipes of a container are held.
func (o *outputs) holds(id string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.held[id] != nil
}

// hold holds the pipes of a container until release closes them.
func (o *outputs) hold(id string, pipes []*os.File, log tasklog.Config) {
	if len(pipes) == 0 {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.held == nil {
		o.held = make(map[string]*output)
	}
	if old := o.held[id]; old != nil {
		closeAll(old.pipes)
	}
	log.Again = true
	o.held[id] = &output{pipes: pipes, arg: log.Arg(), named: filepath.IsAbs(pipes[0].Name())}
	if o.stop == nil {
		o.stop = make(chan struct{})
		stop := o.stop
		o.over.Go(func() { o.watch(stop) })
	}
}

// release closes the pipes of a container.
func (o *outputs) release(id string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if held := o.held[id]; held != nil {
		closeAll(held.pipes)
		delete(o.held, id)
	}
}

// close closes all pipes. Loggers run on.
func (o *outputs) close() {
	o.mu.Lock()
	for _, held := range o.held {
		closeAll(held.pipes)
	}
	o.held = nil
	if o.stop != nil {
		close(o.stop)
		o.stop = nil
	}
	o.mu.Unlock()
	o.over.Wait()
}

// watch starts another logger for pipes without a reader, until it is stopped or no pipe is held.
func (o *outputs) watch(stop chan struct{}) {
	tick := time.NewTicker(readEvery)
	defer tick.Stop()
	for {
		select {
		case <-stop:
			return
		case <-tick.C:
		}
		if !o.look(stop) {
			return
		}
	}
}

// look checks once; false means that no pipe is left to check.
func (o *outputs) look(stop chan struct{}) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.stop != stop {
		return false
	}
	if len(o.held) == 0 {
		o.stop = nil
		return false
	}
	for id, held := range o.held {
		if !held.starting && !held.isRead() {
			// The next check may succeed; until then the task waits, and is not killed.
			_ = o.startLogger(id, held, held.arg, nil)
		}
	}
	return true
}

// isRead reports whether a logger reads one of the pipes, or nothing will ever arrive.
func (h *output) isRead() bool {
	over := true
	for _, f := range h.pipes {
		err := withFD(f, func(fd int) error {
			if err := unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB); err != nil {
				return err
			}
			// Check last, so as not to miss a logger that has just read everything and ended.
			over = over && ended(fd)
			return unix.Flock(fd, unix.LOCK_UN)
		})
		if err != nil {
			return true
		}
	}
	return over
}

// ended reports whether a pipe is empty and has no writer.
func ended(fd int) bool {
	look := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
	n, err := unix.Poll(look, 0)
	return err == nil && n > 0 && look[0].Revents&unix.POLLIN == 0
}

// startLogger starts a logger that outlives this process. It writes to ready once it reads, unless
// ready is nil. The caller holds o.mu.
func (o *outputs) startLogger(id string, held *output, arg string, ready *os.File) (err error) {
	cmd := exec.Command(o.logger.Path, o.logger.Subcommand, arg)
	cmd.Dir = "/"
	cmd.Env = []string{"CONTAINER_ID=" + id}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	var opened []*os.File
	defer func() { closeAll(opened) }()
	for _, f := range held.pipes {
		// Open them again: a lock belongs to an open file.
		again, err := reopen(f)
		if err != nil {
			return err
		}
		opened = append(opened, again)
	}
	if len(held.pipes) == 1 { // of a terminal
		none, err := os.Open(os.DevNull)
		if err != nil {
			return err
		}
		opened = append(opened, none)
	}
	cmd.ExtraFiles = slices.Clone(opened)
	discard, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	defer discard.Close()
	cmd.ExtraFiles = append(cmd.ExtraFiles, cmp.Or(ready, discard))
	if err := cmd.Start(); err != nil {
		return err
	}
	held.starting = true
	go func() {
		_ = cmd.Wait() // the result is not needed
		o.mu.Lock()
		defer o.mu.Unlock()
		held.starting = false
	}()
	return nil
}

// reopen opens a pipe again, for a process that reads it with blocking reads.
func reopen(f *os.File) (again *os.File, err error) {
	err = withFD(f, func(fd int) error {
		// Without a writer, a blocking open of a named pipe waits.
		n, err := unix.Open("/proc/self/fd/"+strconv.Itoa(fd), unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
		if err != nil {
			return err
		}
		again = os.NewFile(uintptr(n), f.Name())
		return unix.SetNonblock(n, false)
	})
	if err != nil {
		return nil, err
	}
	return again, nil
}

// withFD calls do with the descriptor of a file.
func withFD(f *os.File, do func(fd int) error) error {
	raw, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	err = raw.Control(func(fd uintptr) { failed = do(int(fd)) })
	return errors.Join(err, failed)
}

// pipesFor opens the pipes to which a container writes, and returns their identity.
func (r *Runtime) pipesFor(c nodeagent.Container, pid uint32) (pipes []*os.File, identity string) {
	if !c.Stdin && !c.TTY {
		return pipesOf(pid)
	}
	return attach.OpenOutput(r.pipesDir(c.ID)), namedPipes
}

// begin starts the first logger of held pipes, unless a call before a crash did so. It waits until
// the logger reads: otherwise the log of a short process would look complete before it is.
func (o *outputs) begin(id string, log tasklog.Config) error {
	read, write, err := os.Pipe()
	if err != nil {
		return err
	}
	defer read.Close()
	reads, err := o.first(id, log.Arg(), write)
	if write.Close(); reads || err != nil {
		return err
	}
	if err := read.SetReadDeadline(time.Now().Add(cleanWait)); err != nil {
		return err
	}
	_, err = read.Read(make([]byte, 1))
	return err
}

// first starts a logger, unless one reads.
func (o *outputs) first(id, arg string, ready *os.File) (reads bool, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	held := o.held[id]
	if held == nil {
		return false, errors.New("its pipes are missing")
	}
	if held.isRead() {
		return true, nil
	}
	return false, o.startLogger(id, held, arg, ready)
}

// named reports whether the pipes of a container are held, and named ones.
func (o *outputs) named(id string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.held[id] != nil && o.held[id].named
}

// written reports whether the logger of held pipes has read everything and ended. A container whose
// pipes are not held has no logger to wait for.
func (o *outputs) written(id string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	held := o.held[id]
	if held == nil {
		return true
	}
	return !held.starting && held.isRead() && held.unlocked()
}

// unlocked reports whether no logger reads the pipes.
func (h *output) unlocked() bool {
	for _, f := range h.pipes {
		err := withFD(f, func(fd int) error {
			return errors.Join(unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB), unix.Flock(fd, unix.LOCK_UN))
		})
		if err != nil {
			return false
		}
	}
	return true
}
