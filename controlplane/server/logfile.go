package server

import (
	"os"
	"runtime"
	"sync"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/escher-sched/escher/types"
)

// maxLogBytes is how long a log file may get; there are two at most.
const maxLogBytes = 32 << 20

// logFile is a file that is appended to. When it has reached max bytes it is put
// aside under its name with .1 added, in place of the one before.
type logFile struct {
	path string
	max  int64

	mu   sync.Mutex
	file *os.File
	size int64
}

func openLogFile(path string, limit int64) (*logFile, error) {
	l := &logFile{path: path, max: limit}
	if err := l.open(); err != nil {
		return nil, types.Errorf(types.Precondition, "open log %s: %w", path, err)
	}
	return l, nil
}

func (l *logFile) open() error {
	f, err := os.OpenFile(l.path, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	info, err := f.Stat()
	if err != nil {
		return err
	}
	l.file, l.size = f, info.Size()
	return nil
}

// Write implements zapcore.WriteSyncer.
func (l *logFile) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.size >= l.max {
		if err := l.rotate(); err != nil {
			return 0, err
		}
	}
	n, err := l.file.Write(p)
	l.size += int64(n)
	return n, err
}

func (l *logFile) rotate() error {
	if err := l.file.Close(); err != nil {
		return err
	}
	if err := os.Rename(l.path, l.path+".1"); err != nil {
		return err
	}
	return l.open()
}

// Sync implements zapcore.WriteSyncer. The log is for people: what the kernel has
// of it is safe enough.
func (l *logFile) Sync() error { return nil }

// close closes the file. Every entry has been written when it was made; there is
// nobody to tell of an error.
func (l *logFile) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	_ = l.file.Close()
}

// fatalHook takes the place of what zap does after an entry of level fatal, which
// is to end the process without a word to its user: it ends the goroutine, one of
// etcd's, and says why to whoever reads from the channel.
type fatalHook chan string

// OnWrite implements zapcore.CheckWriteHook.
func (h fatalHook) OnWrite(e *zapcore.CheckedEntry, fields []zapcore.Field) {
	text := e.Message
	enc := zapcore.NewMapObjectEncoder()
	for _, f := range fields {
		f.AddTo(enc)
	}
	if why, ok := enc.Fields["error"].(string); ok {
		text += ": " + why
	}
	select {
	case h <- text:
	default: // the first reason is the one that counts
	}
	runtime.Goexit()
}

// etcdLogger returns the logger to give to etcd.
func etcdLogger(out zapcore.WriteSyncer, fatal fatalHook) *zap.Logger {
	enc := zap.NewProductionEncoderConfig()
	enc.EncodeTime = zapcore.ISO8601TimeEncoder
	core := zapcore.NewCore(zapcore.NewJSONEncoder(enc), out, zap.InfoLevel)
	return zap.New(core, zap.WithFatalHook(fatal))
}
