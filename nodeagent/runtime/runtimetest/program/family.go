package main

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
)

// litter makes two orphans that end, and blocks.
func litter() (int, error) {
	// Like a shell that does not wait for its child.
	for range 2 {
		if err := exec.Command("/proc/self/exe", "abandon").Run(); err != nil {
			return 1, err
		}
	}
	return block("littered", syscall.SIGTERM)
}

// abandon starts a process that ends soon after abandon does.
func abandon() (int, error) {
	if err := exec.Command("/proc/self/exe", "linger").Start(); err != nil {
		return 1, err
	}
	return 0, nil
}

// linger ends after its parent has ended.
func linger() (int, error) {
	for parent := os.Getppid(); os.Getppid() == parent && parent != 1; {
	}
	return 0, nil
}

// zombies prints the number of ended processes that no parent has waited for.
func zombies() (int, error) {
	dirs, err := os.ReadDir("/proc")
	if err != nil {
		return 1, err
	}
	n := 0
	for _, dir := range dirs {
		status, err := os.ReadFile("/proc/" + dir.Name() + "/status")
		if err == nil && strings.Contains(string(status), "State:\tZ") {
			n++
		}
	}
	fmt.Println(n, "zombies")
	return 0, nil
}

// nurse has a child, and ends after it.
func nurse() (int, error) {
	child := exec.Command("/proc/self/exe", "deaf")
	child.Stdout = os.Stdout
	return 0, child.Run()
}
