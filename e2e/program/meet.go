package main

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"
)

// shell runs the command line of sh -c or sh -e -c, which has variables and nothing else to expand: the image
// has no shell.
func shell(args []string) {
	if len(args) > 0 && args[0] == "-e" {
		args = args[1:]
	}
	if len(args) != 2 || args[0] != "-c" {
		fail("sh: only -e, -c and a text")
	}
	words := strings.Fields(strings.TrimPrefix(os.ExpandEnv(args[1]), "exec "))
	path, err := exec.LookPath(words[0])
	if err == nil {
		err = syscall.Exec(path, words, os.Environ())
	}
	fail(err.Error())
}

// torchrun meets the other tasks of its job as torchrun does, and all of them: it listens at its
// own port, and connects to the master and to each peer. Then it works until it is stopped.
func torchrun(args []string) {
	flags := make(map[string]string)
	for _, arg := range args {
		if name, value, ok := strings.Cut(arg, "="); ok {
			flags[name] = value
		}
	}
	peers := strings.Split(os.Getenv("ESCHER_PEERS"), ",")
	if fmt.Sprint(len(peers)) != flags["--nnodes"] || os.Getenv("ESCHER_COUNT") != flags["--nnodes"] || os.Getenv("ESCHER_INDEX") != flags["--node-rank"] {
		fail(fmt.Sprintf("%v does not match %v", flags, os.Environ()))
	}
	l, err := net.Listen("tcp", ":"+os.Getenv("PORT"))
	if err != nil {
		fail(err.Error())
	}
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				fail(err.Error())
			}
			fmt.Fprintf(conn, "%s", os.Getenv("ESCHER_INDEX"))
			conn.Close()
		}
	}()
	if at := reach(net.JoinHostPort(flags["--master-addr"], flags["--master-port"])); at != "0" {
		fail("the master says that it is " + at)
	}
	for i, peer := range peers {
		if at := reach(peer); at != fmt.Sprint(i) {
			fail(fmt.Sprintf("%s says that it is %s, and is number %d", peer, at, i))
		}
	}
	fmt.Printf("rank %s of %s at attempt %s met %s\n", flags["--node-rank"], flags["--nnodes"], os.Getenv("ESCHER_ATTEMPT"), os.Getenv("ESCHER_PEERS"))
	work("1h")
}

// reach returns the answer at an address, as soon as there is one.
func reach(address string) string {
	for {
		conn, err := net.DialTimeout("tcp", address, 5*time.Second)
		if err == nil {
			answer := make([]byte, 9)
			n, err := conn.Read(answer)
			conn.Close()
			if err == nil {
				return string(answer[:n])
			}
		}
		time.Sleep(100 * time.Millisecond)
	}
}
