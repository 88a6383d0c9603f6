package main

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// try tries actions that a container must not be able to do, and prints each result: ok, or the
// name of the error. All are harmless if they succeed. Some take an argument, as in write=/etc/x.
func try(what []string) (int, error) {
	for _, text := range what {
		verb, arg, _ := strings.Cut(text, "=")
		fmt.Printf("%s: %s\n", text, outcome(attempt(verb, arg)))
	}
	return 0, nil
}

func attempt(verb, arg string) error {
	switch verb {
	case "mount":
		return unix.Mount("tmpfs", "/dev/shm", "tmpfs", 0, "")
	case "keyctl": // gets its own keyring, which needs no right
		_, err := unix.KeyctlGetKeyringID(unix.KEY_SPEC_PROCESS_KEYRING, true)
		return err
	case "userns": // a user namespace, which needs no right
		cmd := exec.Command("/proc/self/exe", "exit", "0")
		cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWUSER}
		return cmd.Run()
	case "bpf":
		_, _, errno := unix.Syscall(unix.SYS_BPF, ^uintptr(0), 0, 0)
		return errnoOr(errno)
	case "raw":
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_RAW, unix.IPPROTO_ICMP)
		return closed(fd, err)
	case "mknod": // for the first disk
		return unix.Mknod(arg, unix.S_IFBLK|0o600, int(unix.Mkdev(8, 0)))
	case "read":
		fd, err := unix.Open(arg, unix.O_RDONLY|unix.O_CLOEXEC, 0)
		return closed(fd, err)
	case "write":
		fd, err := unix.Open(arg, unix.O_WRONLY|unix.O_CREAT|unix.O_CLOEXEC, 0o600)
		return closed(fd, err)
	case "chmod":
		return unix.Chmod(arg, 0o666)
	case "rename":
		return unix.Rename(arg, arg+".old")
	case "remove":
		return unix.Unlink(arg)
	case "signal": // whether the process exists and accepts signals
		pid, err := strconv.Atoi(arg)
		if err != nil {
			return err
		}
		return unix.Kill(pid, 0)
	case "connect":
		conn, err := net.Dial("unix", arg)
		if err == nil {
			err = conn.Close()
		}
		return err
	}
	return fmt.Errorf("unknown attempt %q", verb)
}

func errnoOr(errno syscall.Errno) error {
	if errno == 0 {
		return nil
	}
	return errno
}

func closed(fd int, err error) error {
	if err != nil {
		return err
	}
	return unix.Close(fd)
}

func outcome(err error) string {
	var errno syscall.Errno
	switch {
	case err == nil:
		return "ok"
	case errors.As(err, &errno):
		return unix.ErrnoName(errno)
	}
	return "failed"
}

// fork makes up to most idle processes, until it gets no more, and prints their number. They end
// with fork, which is the first process of its container.
func fork(most string) (int, error) {
	n, err := strconv.Atoi(most)
	if err != nil {
		return 0, err
	}
	for made := range n {
		pid, _, errno := unix.RawSyscall6(unix.SYS_CLONE, uintptr(unix.SIGCHLD), 0, 0, 0, 0, 0)
		switch {
		case errno != 0:
			fmt.Printf("made %d: %s\n", made, outcome(errno))
			return 0, nil
		case pid == 0:
			// The child can only make raw system calls.
			for {
				_, _, _ = unix.RawSyscall6(unix.SYS_PPOLL, 0, 0, 0, 0, 0, 0)
			}
		}
	}
	fmt.Printf("made %d: ok\n", n)
	return 0, nil
}

// status prints the rights of the process in the kernel's format.
func status() (int, error) {
	text, err := os.ReadFile("/proc/self/status")
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "Cap") || strings.HasPrefix(line, "NoNewPrivs") || strings.HasPrefix(line, "Seccomp:") {
			fmt.Print(line)
		}
	}
	return 0, err
}
