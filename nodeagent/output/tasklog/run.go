package tasklog

import (
	"errors"
	"io"
	"os"
	"os/signal"
	"runtime/debug"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/escher-sched/escher/types"
)

// The file descriptors that containerd's shim passes to a logger.
const (
	stdoutFD = 3
	stderrFD = 4
	readyFD  = 5
)

// chunkBytes is the size of a read: the capacity of a pipe, so that a read rarely ends within a
// line.
const chunkBytes = 64 << 10

// Run is the main function of a logger, the process that containerd's shim starts before the
// container. arg is the result of Config.Arg. Run returns when the container has closed its output,
// and ignores the shim's SIGTERM, which may come before.
func Run(arg string) error {
	signal.Ignore(syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	beSmall()
	return run(arg, os.NewFile(stdoutFD, "stdout"), os.NewFile(stderrFD, "stderr"), os.NewFile(readyFD, "ready"))
}

// beSmall keeps the memory of a logger low, because a machine has hundreds of them. It also makes
// the kernel kill other processes first when memory runs out: without its logger, a task has to
// wait.
func beSmall() {
	const percent, score = 20, "-900"
	debug.SetGCPercent(percent)
	debug.FreeOSMemory()
	_ = os.WriteFile("/proc/self/oom_score_adj", []byte(score), 0) // requires root
}

// againNote is the log line for a logger that ended too early.
const againNote = "\nescher: the logger of this task ended and was started again: some output may be missing here\n"

func run(arg string, stdout, stderr io.Reader, ready io.WriteCloser) error {
	conf, err := ParseArg(arg)
	if err != nil {
		return err
	}
	return copyTo(newWriter(conf), stdout, stderr, ready)
}

// copyTo writes both streams until they end. At the start and at the end, it waits a limited time
// for a hanging disk.
func copyTo(w *writer, stdout, stderr io.Reader, ready io.WriteCloser) error {
	for _, r := range []io.Reader{stdout, stderr} {
		holdLock(r)
	}
	q := newQueue(w)
	defer q.end()
	first := "" // The log exists from the start, even if it is empty.
	if w.conf.Again {
		first = againNote
	}
	q.begin(first)
	// One byte, then the end: newer shims expect the byte, older ones the end.
	_, err := ready.Write([]byte{0})
	if err = errors.Join(err, ready.Close()); err != nil {
		return types.Errorf(types.Internal, "tell the shim that the logger of %s is ready: %w", w.conf.Path, err)
	}
	var both sync.WaitGroup
	both.Go(func() { drain(q, Stdout, stdout) })
	both.Go(func() { drain(q, Stderr, stderr) })
	both.Wait()
	return nil
}

// holdLock locks a stream to show that it has a reader: see containerd's outputs. If locks are not
// possible, logging goes on.
func holdLock(r io.Reader) {
	if f, ok := r.(*os.File); ok {
		_ = unix.Flock(int(f.Fd()), unix.LOCK_SH)
	}
}

// drain copies a stream to q until it ends.
func drain(q *queue, s Stream, r io.Reader) {
	chunk := make([]byte, chunkBytes)
	for {
		n, err := r.Read(chunk)
		if n > 0 {
			q.put(s, chunk[:n])
		}
		if err != nil {
			return
		}
	}
}

// Append appends pieces to a log, as a logger does. The zero time of a piece means now.
func Append(path string, pieces ...Piece) error {
	w := newWriter(Config{Path: path, MaxBytes: DefaultMaxBytes})
	defer w.close()
	for _, piece := range pieces {
		var p part
		if piece.At.IsZero() {
			piece.At = time.Now()
		}
		p.add(piece.Stream, piece.At, piece.Text)
		w.write(p)
	}
	if w.lost > 0 {
		return types.Errorf(types.Unavailable, "write log %s: %w", path, w.why)
	}
	return nil
}
