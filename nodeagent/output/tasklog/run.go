package tasklog

import (
	"errors"
	"io"
	"os"
	"os/signal"
	"runtime/debug"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/escher-sched/escher/types"
)

// The descriptors that containerd's shim starts a logger with.
const (
	stdoutFD = 3
	stderrFD = 4
	readyFD  = 5
)

// chunkBytes is how much is read at once: all that a pipe can hold, so that what
// is read seldom ends within a line.
const chunkBytes = 64 << 10

// Run is the main function of a logger, the process that containerd's shim
// starts before the container; arg is what Config.Arg returned. It returns when
// the container has closed its output, and not before: the shim's SIGTERM comes
// while there still may be output to read.
func Run(arg string) error {
	signal.Ignore(syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	beSmall()
	return run(arg, os.NewFile(stdoutFD, "stdout"), os.NewFile(stderrFD, "stderr"), os.NewFile(readyFD, "ready"))
}

// beSmall keeps what a logger takes low, as there are hundreds of them on a machine, and
// has the kernel kill others first when there is no memory left: without its logger, a
// task has to wait.
func beSmall() {
	const percent, score = 20, "-900"
	debug.SetGCPercent(percent)
	debug.FreeOSMemory()
	_ = os.WriteFile("/proc/self/oom_score_adj", []byte(score), 0) // which takes root
}

// againNote is what a log says of a logger that has ended before its time.
const againNote = "\nescher: the logger of this task ended and was started again: some output may be missing here\n"

func run(arg string, stdout, stderr io.Reader, ready io.WriteCloser) error {
	conf, err := ParseArg(arg)
	if err != nil {
		return err
	}
	return copyTo(newWriter(conf), stdout, stderr, ready)
}

// copyTo writes both streams until they end. It waits for a disk that hangs for some time,
// at the start and at the end.
func copyTo(w *writer, stdout, stderr io.Reader, ready io.WriteCloser) error {
	for _, r := range []io.Reader{stdout, stderr} {
		holdLock(r)
	}
	q := newQueue(w)
	defer q.end()
	first := "" // So that there is a log from the start, if an empty one.
	if w.conf.Again {
		first = againNote
	}
	q.begin(first)
	// One byte, then the end: newer shims want the byte, older ones the end.
	_, err := ready.Write([]byte{0})
	if err = errors.Join(err, ready.Close()); err != nil {
		return types.Errorf(types.Internal, "tell the shim that the logger of %s is ready: %w", w.conf.Path, err)
	}
	var both sync.WaitGroup
	for _, r := range []io.Reader{stdout, stderr} {
		both.Go(func() { drain(q, r) })
	}
	both.Wait()
	return nil
}

// holdLock lets others know that somebody reads: see containerd's outputs. Where a lock
// is not possible, there is a log still.
func holdLock(r io.Reader) {
	if f, ok := r.(*os.File); ok {
		_ = unix.Flock(int(f.Fd()), unix.LOCK_SH)
	}
}

// drain copies r to q until r ends.
func drain(q *queue, r io.Reader) {
	chunk := make([]byte, chunkBytes)
	for {
		n, err := r.Read(chunk)
		if n > 0 {
			q.put(chunk[:n])
		}
		if err != nil {
			return
		}
	}
}
