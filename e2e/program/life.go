package main

import (
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
)

// count adds a line to a file, prints how many it has, and exits with a code.
func count(args []string) {
	f, err := os.OpenFile(args[0], os.O_APPEND|os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		fail(err.Error())
	}
	if _, err := f.WriteString("x\n"); err != nil {
		fail(err.Error())
	}
	text, err := os.ReadFile(args[0])
	if err != nil {
		fail(err.Error())
	}
	fmt.Println(strings.Count(string(text), "\n"))
	code, _ := strconv.Atoi(args[1])
	os.Exit(code)
}

// heed ends at a given signal, which it prints, and at no other.
func heed(name string) {
	got := make(chan os.Signal, 9)
	signal.Notify(got, syscall.SIGTERM, syscall.SIGINT, syscall.SIGUSR1)
	fmt.Println("began")
	for s := range got {
		fmt.Println("got", s)
		if s.String() == name {
			return
		}
	}
}

// grow takes memory until it is killed; with "child", a child process does.
func grow(args []string) {
	if len(args) > 0 {
		if err := exec.Command("/proc/self/exe", "grow").Run(); err != nil {
			fail(err.Error())
		}
		return
	}
	const step = 8 << 20
	var all [][]byte
	for {
		block := make([]byte, step)
		for i := 0; i < len(block); i += 4096 {
			block[i] = 1
		}
		all = append(all, block)
		if len(all) > 1000 {
			fail("there is more memory than expected")
		}
	}
}
