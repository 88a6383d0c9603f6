package doctor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// gatherDir examines a directory and its disk. With try, it also writes there.
func gatherDir(ctx context.Context, h host, path string, try bool) Dir {
	d, ok := within(ctx, probeWait, func(context.Context) Dir {
		d := lookAt(h, path)
		if try && d.Error == "" && !d.NotDir && !d.ReadOnly && os.Geteuid() == 0 {
			d.try()
		}
		return d
	})
	if !ok {
		return Dir{Path: path, Error: fmt.Sprintf("it did not answer within %s", probeWait)}
	}
	return d
}

// lookAt examines a directory without writing.
func lookAt(h host, path string) Dir {
	d := Dir{Path: path, At: path}
	info, err := os.Stat(path)
	for errors.Is(err, fs.ErrNotExist) && d.At != "/" {
		d.At = filepath.Dir(d.At)
		info, err = os.Stat(d.At)
	}
	if err != nil {
		d.Error = err.Error()
		return d
	}
	d.NotDir, d.Mode = !info.IsDir(), info.Mode().Perm()
	if stat, ok := info.Sys().(*syscall.Stat_t); ok {
		d.UID = int(stat.Uid)
	}
	var st unix.Statfs_t
	if err := unix.Statfs(d.At, &st); err != nil {
		d.Error = err.Error()
		return d
	}
	d.Free, d.Size = int64(st.Bavail)*st.Bsize, int64(st.Blocks)*st.Bsize
	d.FreeInodes, d.Inodes = int64(st.Ffree), int64(st.Files)
	d.NoExec, d.ReadOnly = st.Flags&unix.ST_NOEXEC != 0, st.Flags&unix.ST_RDONLY != 0
	d.Type = typeOf(h, d.At)
	return d
}

// typeOf returns the type of a path's file system, according to the last mount.
func typeOf(h host, path string) string {
	if real, err := filepath.EvalSymlinks(path); err == nil {
		path = real
	}
	kind, longest := "", -1
	for _, m := range h.mounts() {
		if below := m.at == "/" || m.at == path || strings.HasPrefix(path, m.at+"/"); below && len(m.at) >= longest {
			kind, longest = m.kind, len(m.at)
		}
	}
	return kind
}

// try writes below the directory, and makes an overlay there. It leaves nothing behind.
func (d *Dir) try() {
	dir, err := os.MkdirTemp(d.At, ".escher-doctor-")
	if err != nil {
		d.Error = err.Error()
		return
	}
	defer func() { _ = os.RemoveAll(dir) }() // a rest would be empty
	if d.Fsync, err = fsyncTime(filepath.Join(dir, "written")); err != nil {
		d.Error = err.Error()
		return
	}
	if err := overlay(dir); err != nil {
		d.Overlay = err.Error()
	}
}

// fsyncTries is the number of writes of which fsyncTime returns the median.
const fsyncTries = 5

// fsyncTime measures how long a small write takes to reach the disk.
func fsyncTime(path string) (time.Duration, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	var took []time.Duration
	for range fsyncTries {
		begin := time.Now()
		if _, err := f.Write(make([]byte, 512)); err != nil {
			return 0, err
		}
		if err := f.Sync(); err != nil {
			return 0, err
		}
		took = append(took, time.Since(begin))
	}
	slices.Sort(took)
	return took[len(took)/2], nil
}

// overlay makes an overlay file system of directories below dir, as for containers, and does not
// mount it. It does nothing on kernels before 5.2, which cannot do that.
func overlay(dir string) error {
	fd, err := unix.Fsopen("overlay", unix.FSOPEN_CLOEXEC)
	switch {
	case errors.Is(err, unix.ENOSYS), errors.Is(err, unix.EPERM):
		return nil
	case errors.Is(err, unix.ENODEV):
		return errors.New("the kernel has no overlay file system")
	case err != nil:
		return err
	}
	defer unix.Close(fd)
	for option, name := range map[string]string{"lowerdir": "lower", "upperdir": "upper", "workdir": "work"} {
		path := filepath.Join(dir, name)
		if err := os.Mkdir(path, 0o700); err != nil {
			return err
		}
		if err := unix.FsconfigSetString(fd, option, path); err != nil {
			return err
		}
	}
	return unix.FsconfigCreate(fd)
}

// gatherLogs sums up the logs of tasks. For a hanging disk, the sum is 0 and cut.
func gatherLogs(ctx context.Context, dir string) (sum int64, cut bool) {
	type size struct {
		sum int64
		cut bool
	}
	s, ok := within(ctx, probeWait, func(context.Context) size {
		sum, cut := sizeOf(dir)
		return size{sum, cut}
	})
	return s.sum, s.cut || !ok
}

// The limits of sizeOf in files and time.
const (
	sizeMost = 200_000
	sizeWait = 3 * time.Second
)

// sizeOf sums up the files below a directory; cut reports whether it reached a limit.
func sizeOf(dir string) (sum int64, cut bool) {
	begin, seen := time.Now(), 0
	err := filepath.WalkDir(dir, func(_ string, e fs.DirEntry, err error) error {
		if err != nil {
			return nil // it is gone, or not readable
		}
		if seen++; seen > sizeMost || time.Since(begin) > sizeWait {
			return fs.SkipAll
		}
		if info, err := e.Info(); err == nil && info.Mode().IsRegular() {
			sum += info.Size()
		}
		return nil
	})
	return sum, err != nil || seen > sizeMost || time.Since(begin) > sizeWait
}
