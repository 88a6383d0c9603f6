package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
)

// burn writes that many MiB to a file in a directory, keeps as many in memory, and uses a processor
// until it is killed.
func burn(args []string) {
	n, err := strconv.Atoi(args[1])
	if err != nil {
		fail(err.Error())
	}
	held := make([]byte, n<<20)
	for i := range held {
		held[i] = byte(i)
	}
	f, err := os.Create(filepath.Join(args[0], "burnt"))
	if err != nil {
		fail(err.Error())
	}
	if _, err := f.Write(held); err != nil {
		fail(err.Error())
	}
	if err := f.Sync(); err != nil {
		fail(err.Error())
	}
	fmt.Println("burns")
	for i := 0; ; i = (i + 1) % len(held) {
		held[i]++
	}
}
