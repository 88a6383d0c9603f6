package main

import (
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// chat writes numbered lines until it is stopped, and then the number of the last one.
func chat() {
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM)
	tick := time.NewTicker(time.Millisecond)
	for n := 1; ; n++ {
		if _, err := fmt.Println("line", n); err != nil {
			fail(err.Error())
		}
		select {
		case <-tick.C:
		case <-stop:
			fmt.Println("end", n)
			return
		}
	}
}

// flood writes a number of mebibytes as fast as it can.
func flood(mebibytes string) {
	n, _ := strconv.Atoi(mebibytes)
	block := strings.Repeat(strings.Repeat("x", 1023)+"\n", 1024)
	for range n {
		if _, err := fmt.Print(block); err != nil {
			fail(err.Error())
		}
	}
}
