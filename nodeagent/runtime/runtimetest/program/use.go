package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
)

// burn uses a processor until it is killed.
func burn() (int, error) {
	fmt.Println("ready")
	for n := uint64(1); n != 0; n++ { // It takes centuries.
	}
	return 0, nil
}

// hold allocates that many MiB of memory, and keeps them until SIGTERM.
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

// write writes that many MiB to a file without the page cache, and waits for SIGTERM.
func write(dir, mebibytes string) (int, error) {
	n, err := strconv.Atoi(mebibytes)
	if err != nil {
		return 1, err
	}
	// cgroup v1 does not account writes without O_DIRECT.
	f, err := os.OpenFile(filepath.Join(dir, "written"), os.O_WRONLY|os.O_CREATE|syscall.O_DIRECT, 0o600)
	if err != nil {
		return 1, err
	}
	defer f.Close()
	// Mapped memory starts at a page boundary, as O_DIRECT requires.
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
