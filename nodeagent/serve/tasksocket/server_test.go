package tasksocket

import (
	"net"
	"os"
	"path/filepath"
	"testing"
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
