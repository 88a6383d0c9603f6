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

// alternate writes numbered lines to both streams in turn, with a pause after each, until it is
// stopped.
func alternate(pause string) {
	every, err := time.ParseDuration(pause)
	if err != nil {
		fail(err.Error())
	}
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM)
	tick := time.NewTicker(every)
	for n := 1; ; n++ {
		to, name := os.Stdout, "out"
		if n%2 == 0 {
			to, name = os.Stderr, "err"
		}
		if _, err := fmt.Fprintln(to, name, n); err != nil {
			os.Exit(1)
		}
		select {
		case <-tick.C:
		case <-stop:
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
