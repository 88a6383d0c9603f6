package e2e

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestSocketAttack attacks etcd and containerd from within a container on the host's network, as
// root: there is nothing to connect to.
func TestSocketAttack(t *testing.T) {
	c := started(t)
	etcd := filepath.Join(c.dir, "etcd/run/etcd.sock")
	// The attack is sound: outside it succeeds.
	for _, path := range []string{etcd, filepath.Join(c.dir, "containerd/containerd.sock")} {
		if _, err := os.Stat(path); err != nil {
			t.Fatal(err)
		}
	}
	sockets, err := filepath.Glob(filepath.Join(c.dir, "*/run/*.sock"))
	if err != nil || len(sockets) == 0 {
		t.Fatalf("no sockets: %v", err)
	}
	args := append([]string{"run", image, "--", "/bin/program", "attack", etcd, filepath.Join(c.dir, "containerd/containerd.sock")}, sockets...)
	o := c.escher(args...)
	if o.code != 0 || !strings.Contains(o.out, "attacked: 0 reached") {
		t.Errorf("%+v", o)
	}
	if strings.Contains(o.out, "abstract") && strings.Contains(o.out, c.dir) {
		t.Errorf("a socket of the cluster has no path, and can be reached from the host's network:\n%s", o.out)
	}

	for _, dir := range []string{c.dir, filepath.Join(c.dir, "etcd/run")} {
		info, err := os.Stat(dir)
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode().Perm() != 0o700 {
			t.Errorf("%s has mode %o", dir, info.Mode().Perm())
		}
	}
	if ports := listening(t, c.cmd.Process.Pid); len(ports) > 0 {
		t.Errorf("escher dev listens on TCP: %v", ports)
	}
}

// listening returns the local addresses on which a process listens.
func listening(t *testing.T, pid int) []string {
	t.Helper()
	inodes := make(map[string]bool)
	fds, err := filepath.Glob(filepath.Join("/proc", itoa(pid), "fd/*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, fd := range fds {
		if target, err := os.Readlink(fd); err == nil && strings.HasPrefix(target, "socket:[") {
			inodes[strings.Trim(target, "socket:[]")] = true
		}
	}
	if len(inodes) == 0 {
		t.Fatal("the process has no sockets at all")
	}
	var found []string
	for _, table := range []string{"tcp", "tcp6"} {
		f, err := os.Open(filepath.Join("/proc", itoa(pid), "net", table))
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		for lines := bufio.NewScanner(f); lines.Scan(); {
			fields := strings.Fields(lines.Text())
			const listen = "0A"
			if len(fields) > 9 && fields[3] == listen && inodes[fields[9]] {
				found = append(found, fields[1])
			}
		}
	}
	return found
}

// TestBesieged floods a task's own socket from within its container. The real agent needs less than
// 192 MiB more for it, and serves its neighbor meanwhile. Only as much garbage as live memory is
// allowed: what a flood keeps alive is bounded, and the garbage on top of it is a choice.
func TestBesieged(t *testing.T) {
	t.Setenv("GOGC", "100")
	c := started(t, "--nodes", "2")
	c.must("run", "-d", "--name", "neighbor", "--request", "node/node-1=1", image, "--", "/bin/program", "chat")
	before := peakOf(t, c.cmd.Process.Pid)
	o := c.escher("run", "--name", "hostile", "--request", "node/node-1=1", image, "--", "/bin/program", "besiege")
	if o.code != 0 || !strings.Contains(o.out, "besieged: 4000") {
		t.Errorf("%+v", o)
	}
	after := peakOf(t, c.cmd.Process.Pid)
	t.Logf("at most %d MiB, %d before", after>>20, before>>20)
	if after-before > 192<<20 {
		t.Errorf("it needed %d MiB, %d before the flood", after>>20, before>>20)
	}
	c.must("exec", "neighbor", "--", "/bin/program", "echo", "here")
	c.must("stop", "neighbor", "hostile")
}

// peakOf returns the peak memory of a process, in bytes.
func peakOf(t *testing.T, pid int) int64 {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("/proc", itoa(pid), "status"))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), "VmHWM:")
	var kib int64
	if _, err := fmt.Sscan(rest, &kib); err != nil {
		t.Fatal(err)
	}
	return kib << 10
}
