package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// bred is the exit code of breed if its child was killed.
const bred = 3

// breed runs eat in another process.
func breed() (int, error) {
	err := exec.Command("/proc/self/exe", "eat").Run()
	if ended, ok := errors.AsType[*exec.ExitError](err); ok && ended.Sys().(syscall.WaitStatus).Signal() == syscall.SIGKILL {
		return bred, nil
	}
	return 1, err
}

func copyInput(code string) (int, error) {
	if _, err := io.Copy(os.Stdout, os.Stdin); err != nil {
		return 1, err
	}
	fmt.Fprintln(os.Stderr, "copied")
	return strconv.Atoi(code)
}

// terminal prints the size and the kind of its terminal.
func terminal() (int, error) {
	changed := make(chan os.Signal, 1)
	signal.Notify(changed, syscall.SIGWINCH)
	ended := make(chan error, 1)
	go func() {
		_, err := io.Copy(io.Discard, os.Stdin)
		ended <- err
	}()
	for {
		size, err := unix.IoctlGetWinsize(int(os.Stdout.Fd()), unix.TIOCGWINSZ)
		if err != nil {
			return 1, err
		}
		fmt.Printf("%dx%d %s\n", size.Col, size.Row, os.Getenv("TERM"))
		select {
		case err := <-ended:
			return 0, err
		case <-changed:
		}
	}
}
