package nodeagent

import (
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/escher-sched/escher/controlplane/supervise"
	"github.com/escher-sched/escher/nodeagent/output/tasklog"
)

const (
	// sweepLogsEvery is the time between two sweeps of the logs, and how long a log may outlive its
	// retention.
	sweepLogsEvery = 10 * time.Minute
	// logDirAge is how long an empty directory stays, for an attempt that may start to write.
	logDirAge = time.Hour
)

// attemptLog is the log of an attempt: its files, their size, and the time of the last write.
type attemptLog struct {
	files []string
	bytes int64
	at    time.Time
}

// keepLogs deletes logs of ended attempts that are too old or too large in total, until ctx is
// done.
func (a *Agent) keepLogs(ctx context.Context) error {
	if a.cfg.StateDir == "" {
		<-ctx.Done()
		return ctx.Err()
	}
	for {
		if err := supervise.Pause(ctx, sweepLogsEvery); err != nil {
			return err
		}
		a.sweepLogs(time.Now())
	}
}

// sweepLogs does one sweep of keepLogs.
func (a *Agent) sweepLogs(now time.Time) {
	live, synced := a.liveLogs()
	if !synced {
		return
	}
	root := filepath.Join(a.cfg.StateDir, "logs")
	logs, dirs := readLogs(root, live)
	dropped := 0
	for _, l := range tooMany(logs, now.Add(-a.cfg.LogRetention), a.cfg.LogBytes-sizeOf(live)) {
		for _, file := range l.files {
			if err := os.Remove(file); err != nil && !os.IsNotExist(err) {
				a.log.Error("log not deleted", zap.String("path", file), zap.Error(err))
			}
		}
		dropped++
	}
	for _, dir := range dirs {
		info, err := os.Stat(dir)
		if err == nil && now.Sub(info.ModTime()) > logDirAge {
			_ = os.Remove(dir) // os.Remove fails while the directory is not empty.
		}
	}
	if dropped > 0 {
		a.cfg.Metrics.logsDeleted.Add(float64(dropped))
		a.log.Info("logs of ended attempts deleted", zap.Int("count", dropped))
	}
}

// liveLogs returns the logs of existing attempts. If synced is false, the attempts are not known
// yet.
func (a *Agent) liveLogs() (paths map[string]bool, synced bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	paths = make(map[string]bool, len(a.tasks))
	for _, t := range a.tasks {
		paths[LogPath(a.cfg.StateDir, t.attempt.Namespace, t.attempt.Task, t.attempt.Number)] = true
	}
	return paths, a.synced && a.listed
}

// readLogs returns the logs below root except live ones, and its directories, inner ones first.
func readLogs(root string, live map[string]bool) (logs []*attemptLog, dirs []string) {
	byPath := make(map[string]*attemptLog)
	_ = filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return nil // Skip unreadable or deleted entries.
		}
		if e.IsDir() {
			if path != root {
				dirs = append(dirs, path)
			}
			return nil
		}
		current := tasklog.PathOf(path)
		info, err := e.Info()
		if err != nil || live[current] {
			return nil // It is deleted, or in use.
		}
		l := byPath[current]
		if l == nil {
			l = new(attemptLog)
			byPath[current] = l
			logs = append(logs, l)
		}
		l.files, l.bytes = append(l.files, path), l.bytes+info.Size()
		if info.ModTime().After(l.at) {
			l.at = info.ModTime()
		}
		return nil
	})
	slices.Reverse(dirs)
	return logs, dirs
}

// sizeOf returns the size of logs, with all their files.
func sizeOf(paths map[string]bool) int64 {
	var sum int64
	for path := range paths {
		for _, file := range tasklog.Files(path) {
			if info, err := os.Stat(file); err == nil {
				sum += info.Size()
			}
		}
	}
	return sum
}

// tooMany returns the logs older than oldest, and the oldest of the others until the rest fits.
func tooMany(logs []*attemptLog, oldest time.Time, fits int64) []*attemptLog {
	slices.SortFunc(logs, func(x, y *attemptLog) int { return x.at.Compare(y.at) })
	var left int64
	for _, l := range logs {
		left += l.bytes
	}
	for i, l := range logs {
		if !l.at.Before(oldest) && left <= fits {
			return logs[:i]
		}
		left -= l.bytes
	}
	return logs
}
