package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
)

// burn takes a processor until it is killed.
func burn() (int, error) {
	fmt.Println("ready")
	for n := uint64(1); n != 0; n++ { // It takes centuries.
	}
	return 0, nil
}

// hold takes that many MiB of memory, and keeps them until SIGTERM.
func hold(mebibytes string) (int, error) {
	n, err := strconv.Atoi(mebibytes)
	if err != nil {
		return 1, err
	}
	held := make([]byte, n<<20)
	for i := 0; i < len(held); i += 512 {
		held[i] = 1
	}
	code, err := block("ready", syscall.SIGTERM)
	return code + int(held[0]) - 1, err
}

// write writes that many MiB to a file, past the page cache, and waits for
// SIGTERM.
func write(dir, mebibytes string) (int, error) {
	n, err := strconv.Atoi(mebibytes)
	if err != nil {
		return 1, err
	}
	// What is written without O_DIRECT is nobody's in cgroup v1.
	f, err := os.OpenFile(filepath.Join(dir, "written"), os.O_WRONLY|os.O_CREATE|syscall.O_DIRECT, 0o600)
	if err != nil {
		return 1, err
	}
	defer f.Close()
	// Memory of the kernel's own making lies at the beginning of a page, as O_DIRECT wants.
	page, err := syscall.Mmap(-1, 0, 1<<20, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE)
	if err != nil {
		return 1, err
	}
	for range n {
		if _, err := f.Write(page); err != nil {
			return 1, err
		}
	}
	return block("ready", syscall.SIGTERM)
}
