// Program runs in the containers of tests. Its first argument is one of the verbs below. It is also
// a logger of containers: see task-log.
package main

import (
	"cmp"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"

	"github.com/escher-sched/escher/nodeagent/output/tasklog"
)

func main() {
	if len(os.Args) < 2 {
		os.Exit(64)
	}
	code, err := run(os.Args[1], os.Args[2:])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func run(verb string, args []string) (int, error) {
	arg := strings.Join(args, " ")
	switch verb {
	case "exit":
		return strconv.Atoi(arg)
	case "block": // until SIGTERM; prints arg when it is ready
		return block(cmp.Or(arg, "ready"), syscall.SIGTERM, syscall.SIGINT)
	case "usr1": // until SIGUSR1
		return block("ready", syscall.SIGUSR1)
	case "deaf":
		signal.Ignore(syscall.SIGTERM, syscall.SIGINT)
		return block("ready", syscall.SIGUSR1)
	case "print":
		fmt.Println(arg)
		fmt.Fprintln(os.Stderr, "warning:", arg)
		return 0, nil
	case "alternate": // writes lines to both streams in turn
		return alternate()
	case "append": // a line to a file
		return 0, appendLine(args[0])
	case "eat":
		return eat()
	case "burn": // until it is killed
		return burn()
	case "hold": // this many MiB of memory
		return hold(arg)
	case "write": // this many MiB to a file in a directory
		return write(args[0], args[1])
	case "breed": // has a child that eats, and exits with code 3 if the child was killed
		return breed()
	case "get":
		return get(arg)
	case "id":
		dir, err := os.Getwd()
		fmt.Printf("uid=%d gid=%d dir=%s TEST=%s\n", os.Getuid(), os.Getgid(), dir, os.Getenv("TEST"))
		return 0, err
	case "cat":
		return cat(args)
	case "ls":
		return ls(args)
	case "open":
		return open(args)
	case "try":
		return try(args)
	case "fork":
		return fork(arg)
	case "status":
		return status()
	case "copy": // input to output, and exit with a code
		return copyInput(arg)
	case "terminal": // prints its size after each change, until the end of input
		return terminal()
	case "litter": // makes orphans that end, and blocks
		return litter()
	case "abandon":
		return abandon()
	case "linger":
		return linger()
	case "zombies": // how many ended processes no parent has waited for
		return zombies()
	case "nurse": // has a deaf child
		return nurse()
	case "chat": // until SIGTERM
		return chat()
	case "bytes":
		return anyBytes()
	case "df": // the size and options of a file system
		return 0, df(arg)
	case "rlimits":
		return 0, rlimits()
	case "task-log":
		return 0, tasklog.Run(arg)
	}
	return 64, fmt.Errorf("unknown verb %q", verb)
}

// alternate writes what runtimetest.Alternations describes.
func alternate() (int, error) {
	const each = 20
	for i := range each {
		if _, err := fmt.Fprintln(os.Stdout, "out", i); err != nil {
			return 0, err
		}
		if _, err := fmt.Fprintln(os.Stderr, "err", i); err != nil {
			return 0, err
		}
	}
	_, err := fmt.Print("the end")
	return 0, err
}

func block(words string, signals ...os.Signal) (int, error) {
	c := make(chan os.Signal, 1)
	signal.Notify(c, signals...)
	fmt.Println(words)
	<-c
	return 0, nil
}

func appendLine(path string) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = f.WriteString("ran\n")
	return err
}

// eat allocates memory until it gets no more.
func eat() (int, error) {
	var eaten [][]byte
	for {
		bite := make([]byte, 1<<20)
		for i := range bite {
			bite[i] = byte(i)
		}
		eaten = append(eaten, bite)
		if len(eaten) > 4<<10 {
			return 0, nil
		}
	}
}

func get(url string) (int, error) {
	answer, err := http.Get(url)
	if err != nil {
		return 0, err
	}
	defer answer.Body.Close()
	_, err = io.Copy(os.Stdout, answer.Body)
	return 0, err
}

func cat(paths []string) (int, error) {
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			return 0, err
		}
		fmt.Print(string(text))
	}
	return 0, nil
}

func ls(paths []string) (int, error) {
	for _, path := range paths {
		entries, err := os.ReadDir(path)
		if err != nil {
			return 0, err
		}
		for _, e := range entries {
			fmt.Println(path + "/" + e.Name())
		}
	}
	return 0, nil
}

// open opens devices for reading.
func open(paths []string) (int, error) {
	for _, path := range paths {
		f, err := os.Open(path)
		if err != nil {
			return 0, err
		}
		f.Close()
	}
	return 0, nil
}
