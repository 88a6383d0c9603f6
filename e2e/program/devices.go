package main

import (
	"fmt"
	"os"
	"path/filepath"
)

// devices prints the GPUs that it sees and those it was told of, and works.
func devices() {
	files, _ := filepath.Glob("/dev/nvidia*")
	for _, file := range files {
		fmt.Println(filepath.Base(file))
	}
	fmt.Println("ESCHER_DEVICES=" + os.Getenv("ESCHER_DEVICES"))
	work("1h")
}
