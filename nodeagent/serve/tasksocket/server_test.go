package tasksocket

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"testing"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/memstore"
)

// TestOpenToAll changes only sockets: a task could have replaced the socket a moment ago.
func TestOpenToAll(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	l, err := net.Listen("unix", at("socket"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for _, err := range []error{
		os.WriteFile(at("file"), nil, 0o600), os.Mkdir(at("dir"), 0o700), os.Chmod(at("socket"), 0o700),
		os.Symlink(at("file"), at("to file")), os.Symlink(at("dir"), at("to dir")), os.Symlink(at("socket"), at("to socket")),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"file", "dir", "to file", "to dir", "to socket", "nothing"} {
		if err := openToAll(at(name)); err == nil {
			t.Errorf("%s was changed", name)
		}
	}
	for name, want := range map[string]os.FileMode{"file": 0o600, "dir": 0o700, "socket": 0o700} {
		if info, err := os.Stat(at(name)); err != nil || info.Mode().Perm() != want {
			t.Errorf("%s: %v, %v", name, info, err)
		}
	}
	if err := openToAll(at("socket")); err != nil {
		t.Error(err)
	}
	if info, err := os.Stat(at("socket")); err != nil || info.Mode().Perm() != 0o666 {
		t.Error(info, err)
	}
}

// TestListenAgain tests an agent that was killed, and finds in its socket's place what a task may
// have put there while it had write access.
func TestListenAgain(t *testing.T) {
	c, err := controlplane.New(memstore.New(), "d")
	if err != nil {
		t.Fatal(err)
	}
	outside := filepath.Join(t.TempDir(), "outside")
	if err := os.WriteFile(outside, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, put := range map[string]func(path string) error{
		"file":      func(path string) error { return os.WriteFile(path, nil, 0o600) },
		"link":      func(path string) error { return os.Symlink(outside, path) },
		"directory": func(path string) error { return os.MkdirAll(filepath.Join(path, "x"), 0o700) },
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			path := filepath.Join(dir, Name)
			if err := put(path); err != nil {
				t.Fatal(err)
			}
			s, err := Listen(Config{Dir: dir, Client: c})
			if err != nil {
				t.Fatal(err)
			}
			if info, err := os.Lstat(path); err != nil || info.Mode() != os.ModeSocket|0o666 {
				t.Error(info, err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			if err := s.Run(ctx); err != context.Canceled {
				t.Error(err)
			}
		})
	}
	if info, err := os.Stat(outside); err != nil || info.Mode() != 0o600 {
		t.Error("what a link led to was changed:", info, err)
	}
}
