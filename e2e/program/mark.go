package main

import (
	"errors"
	"fmt"
	"hash/fnv"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"
)

// marked returns how a task that runs mark ends by itself: the same for all of its processes, and
// different for nearly every task.
func marked(task string) (code int, share uint32) {
	h := fnv.New32a()
	fmt.Fprint(h, task)
	sum := h.Sum32()
	return int(sum % 100), sum / 100 % 1000
}

// mark records in a file of the task that its process began, and how it ended: after a time between
// two bounds, with a code, both specific to the task. While it runs it holds a lock, so that a
// second process of the task is detected.
func mark(args []string) {
	task := os.Getenv("ESCHER_TASK")
	least, err := time.ParseDuration(args[1])
	most, err2 := time.ParseDuration(args[2])
	f, err3 := os.OpenFile(filepath.Join(args[0], task), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err := errors.Join(err, err2, err3); err != nil {
		fail(err.Error())
	}
	code, share := marked(task)
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM)
	if syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) != nil {
		fmt.Fprintln(f, "twice")
	}
	fmt.Fprintln(f, "began", os.Getenv("ESCHER_ATTEMPT"))
	select {
	case <-time.After(least + (most-least)*time.Duration(share)/1000):
		fmt.Fprintln(f, "ended")
	case <-stop:
		fmt.Fprintln(f, "stopped")
		code = 143
	}
	os.Exit(code)
}
