package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
)

// memlock is RLIMIT_MEMLOCK of Linux.
const memlock = 8

// setup prints how its container is set up: the size of /dev/shm and other file systems in KiB, the
// limit of locked memory, and the devices of InfiniBand. With hold it works on.
func setup(paths []string) {
	if len(paths) > 0 && paths[0] == "hold" {
		defer work("1h")
		paths = paths[1:]
	}
	for _, path := range append([]string{"/dev/shm"}, paths...) {
		var s syscall.Statfs_t
		if err := syscall.Statfs(path, &s); err != nil {
			fail(err.Error())
		}
		fmt.Println(path, s.Blocks*uint64(s.Bsize)/1024)
	}
	var l syscall.Rlimit
	if err := syscall.Getrlimit(memlock, &l); err != nil {
		fail(err.Error())
	}
	fmt.Println("memlock", int64(l.Cur), int64(l.Max))
	files, _ := filepath.Glob("/dev/infiniband/*")
	for _, file := range files {
		f, err := os.Open(file)
		if err != nil {
			fail(err.Error())
		}
		f.Close()
		fmt.Println(file)
	}
}

// lock locks this many KiB of memory.
func lock(text string) {
	n, _ := strconv.Atoi(text)
	block, err := syscall.Mmap(-1, 0, n<<10, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_PRIVATE|syscall.MAP_ANON)
	if err == nil {
		err = syscall.Mlock(block)
	}
	if err != nil {
		fail(err.Error())
	}
	fmt.Println("locked", n)
}
