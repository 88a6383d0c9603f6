package main

import (
	"fmt"
	"os"
	"strconv"
	"time"
)

// tick writes numbers from 1 on, ten a second, until a file exists, and then exits with a code.
func tick(path, code string) {
	exit, err := strconv.Atoi(code)
	if err != nil {
		fail(err.Error())
	}
	for i := 1; ; i++ {
		fmt.Println(i)
		if _, err := os.Stat(path); err == nil {
			os.Exit(exit)
		}
		<-time.After(100 * time.Millisecond)
	}
}
