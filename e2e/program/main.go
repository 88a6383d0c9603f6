// Command program is the program in the containers of the tests: a static binary without any Escher
// code. The tests of runtimes have another one, which is also the logger of their containers.
package main

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// byName runs what the name of the program stands for, and does not return then.
func byName(name string) {
	switch name {
	case "worker":
		work("1h")
		os.Exit(0)
	case "sh":
		shell(os.Args[1:])
	case "torchrun":
		torchrun(os.Args[1:])
	}
}

func main() {
	byName(filepath.Base(os.Args[0]))
	if len(os.Args) < 2 {
		fail("no command")
	}
	args := os.Args[2:]
	switch os.Args[1] {
	case "echo":
		fmt.Println(strings.Join(args, " "))
	case "exit":
		code, _ := strconv.Atoi(args[0])
		os.Exit(code)
	case "env":
		fmt.Println(os.Getenv(args[0]))
	case "cat":
		cat(args)
	case "work":
		work(args[0])
	case "count":
		count(args)
	case "heed":
		heed(strings.Join(args, " "))
	case "tick":
		tick(args[0], args[1])
	case "burn":
		burn(args)
	case "grow":
		grow(args)
	case "mark":
		mark(args)
	case "chat":
		chat()
	case "alternate":
		alternate(args[0])
	case "flood":
		flood(args[0])
	case "fork":
		fork(args[0])
	case "ask":
		ask(args)
	case "serve":
		serve()
	case "fail":
		fail(strings.Join(args, " "))
	case "litter":
		litter()
	case "abandon":
		abandon()
	case "attack":
		attack(args)
	case "hoard":
		hoard(args[0])
	case "besiege":
		besiege()
	case "devices":
		devices()
	case "setup":
		setup(args)
	case "lock":
		lock(args[0])
	case "touch":
		if err := os.WriteFile(args[0], nil, 0o600); err != nil {
			fail(err.Error())
		}
	case "absent":
		if _, err := os.Stat(args[0]); err == nil {
			fail(args[0] + " exists")
		}
	default:
		fail("unknown command")
	}
}

func fail(text string) {
	fmt.Fprintln(os.Stderr, "program:", text)
	os.Exit(1)
}

// work prints when it begins and ends, after a duration or when it is stopped.
func work(text string) {
	d, err := time.ParseDuration(text)
	if err != nil {
		fail(err.Error())
	}
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM, syscall.SIGINT)
	fmt.Println("began")
	select {
	case <-time.After(d):
		fmt.Println("ended")
	case <-stop:
		fmt.Println("stopped")
		os.Exit(143)
	}
}

// attack tries to reach its arguments, and everything that listens on the host's network, and
// prints what it reached.
func attack(paths []string) {
	if os.Getuid() != 0 {
		fail("is not root")
	}
	reached := 0
	try := func(network, address string) {
		conn, err := net.DialTimeout(network, address, time.Second)
		if err != nil {
			return
		}
		conn.Close()
		reached++
		fmt.Printf("reached %s %s\n", network, address)
	}
	for _, path := range paths {
		try("unix", path)
		// The file system that a process shows is another way to it.
		for pid := 1; pid < 100; pid++ {
			try("unix", fmt.Sprintf("/proc/%d/root%s", pid, path))
		}
	}
	for _, name := range abstractSockets() {
		fmt.Printf("abstract %s\n", name)
	}
	fmt.Printf("attacked: %d reached\n", reached)
}

// abstractSockets are the sockets without a path, which the host's network shows.
func abstractSockets() []string {
	f, err := os.Open("/proc/net/unix")
	if err != nil {
		fail(err.Error())
	}
	defer f.Close()
	var names []string
	for lines := bufio.NewScanner(f); lines.Scan(); {
		fields := strings.Fields(lines.Text())
		if len(fields) == 8 && strings.HasPrefix(fields[7], "@") {
			names = append(names, fields[7])
		}
	}
	return names
}
