package containerd

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/escher-sched/escher/nodeagent/output/tasklog"
)

// What a container writes goes into two pipes that its logger reads. Were the logger the
// only one that has them open, its end would be that of whoever writes next, by SIGPIPE.
// So the agent has them open as well, as long as it lives, and starts another logger when
// nobody reads. A logger holds a lock on what it reads: nobody else can tell.

// readEvery is how often it is looked whether somebody reads: a pipe holds 64 KiB, so
// that few programs have to wait for it.
const readEvery = 500 * time.Millisecond

// standardStreams are the descriptors of output and error.
func standardStreams() []int { return []int{1, 2} }

// outputs are the pipes of the containers of a runtime. The zero value is ready.
type outputs struct {
	logger Logger

	mu   sync.Mutex
	held map[string]*output
	// stop ends looking; nil while nobody looks.
	stop chan struct{}
	over sync.WaitGroup
}

// output is the pipes of one container.
type output struct {
	// pipes are open for reading, for nobody to read from.
	pipes []*os.File
	// arg is that of its logger.
	arg string
	// starting tells that a logger was started here, and has not ended.
	starting bool
}

// pipesOf opens the pipes that the first process of a container writes to, and returns
// what tells them from others. Nothing: it has none, or they are no pipes.
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

// openPipe opens a pipe that some process has open, by the link to its descriptor; nil
// if it is none.
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
		f.Close() // The descriptor became another one in between.
		return nil, ""
	}
	return f, name
}

// find opens the pipes of a container that runs already, by what tells them from others:
// where its process has them still, or its shim.
func (r *Runtime) find(id string, pid uint32, identity string) []*os.File {
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

// pipesAmong opens those of the pipes of a process that have these names.
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

// holds reports whether the pipes of a container are held already.
func (o *outputs) holds(id string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.held[id] != nil
}

// hold holds the pipes of a container, and closes them when it is released.
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
	o.held[id] = &output{pipes: pipes, arg: log.Arg()}
	if o.stop == nil {
		o.stop = make(chan struct{})
		stop := o.stop
		o.over.Go(func() { o.watch(stop) })
	}
}

// release closes what is held of a container.
func (o *outputs) release(id string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if held := o.held[id]; held != nil {
		closeAll(held.pipes)
		delete(o.held, id)
	}
}

// close releases all. Loggers go on.
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

// watch starts another logger for whatever nobody reads, until it is stopped or nothing
// is held.
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

// look looks once; false: there is nothing to look at any more.
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
			// What goes wrong now may not next time; until then the task waits, and is not
			// killed.
			_ = o.startLogger(id, held)
		}
	}
	return true
}

// isRead reports whether a logger reads any of the pipes, or there is nothing to read and
// never will be.
func (h *output) isRead() bool {
	over := true
	for _, f := range h.pipes {
		err := withFD(f, func(fd int) error {
			if err := unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB); err != nil {
				return err
			}
			// Looked at only now: a logger that has just read all, and ended, is not missed.
			over = over && ended(fd)
			return unix.Flock(fd, unix.LOCK_UN)
		})
		if err != nil {
			return true
		}
	}
	return over
}

// ended reports whether a pipe is empty and nobody has it open to write.
func ended(fd int) bool {
	look := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
	n, err := unix.Poll(look, 0)
	return err == nil && n > 0 && look[0].Revents&unix.POLLIN == 0
}

// startLogger starts a logger that outlives this process. The caller holds o.mu.
func (o *outputs) startLogger(id string, held *output) (err error) {
	cmd := exec.Command(o.logger.Path, o.logger.Subcommand, held.arg)
	cmd.Dir = "/"
	cmd.Env = []string{"CONTAINER_ID=" + id}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	defer func() { closeAll(cmd.ExtraFiles) }()
	for _, f := range held.pipes {
		// Opened anew, as it is locked by whoever has it open.
		again, err := reopen(f)
		if err != nil {
			return err
		}
		cmd.ExtraFiles = append(cmd.ExtraFiles, again)
	}
	nobody, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	cmd.ExtraFiles = append(cmd.ExtraFiles, nobody)
	if err := cmd.Start(); err != nil {
		return err
	}
	held.starting = true
	go func() {
		_ = cmd.Wait() // how it ended is of no use to anybody
		o.mu.Lock()
		defer o.mu.Unlock()
		held.starting = false
	}()
	return nil
}

// reopen opens a pipe for a process that reads it and waits for what comes.
func reopen(f *os.File) (again *os.File, err error) {
	err = withFD(f, func(fd int) error {
		n, err := unix.Open("/proc/self/fd/"+strconv.Itoa(fd), unix.O_RDONLY|unix.O_CLOEXEC, 0)
		again = os.NewFile(uintptr(n), f.Name())
		return err
	})
	if err != nil {
		return nil, err
	}
	return again, nil
}

// withFD does something with the descriptor of a file.
func withFD(f *os.File, do func(fd int) error) error {
	raw, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	err = raw.Control(func(fd uintptr) { failed = do(int(fd)) })
	return errors.Join(err, failed)
}
