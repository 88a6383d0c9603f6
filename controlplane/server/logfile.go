package server

import (
	"os"
	"runtime"
	"sync"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/escher-sched/escher/types"
)

// maxLogBytes bounds a log file; there are at most two.
const maxLogBytes = 32 << 20

// logFile is a file to append to. At max bytes it is renamed to its name with .1 added, in place of
// the previous one.
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

// Sync implements zapcore.WriteSyncer. The log is for people: data in the kernel is safe enough.
func (l *logFile) Sync() error { return nil }

// close closes the file. Every entry was written at once, so an error has no consequence.
func (l *logFile) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	_ = l.file.Close()
}

// fatalHook replaces zap's reaction to an entry of level fatal, which would end the process
// silently. It ends the goroutine, one of etcd's, and sends the reason to the channel.
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
	default: // only the first reason counts
	}
	runtime.Goexit()
}

// etcdLogger returns the logger for etcd.
func etcdLogger(out zapcore.WriteSyncer, fatal fatalHook) *zap.Logger {
	enc := zap.NewProductionEncoderConfig()
	enc.EncodeTime = zapcore.ISO8601TimeEncoder
	core := zapcore.NewCore(zapcore.NewJSONEncoder(enc), out, zap.InfoLevel)
	return zap.New(core, zap.WithFatalHook(fatal))
}
