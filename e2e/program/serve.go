package main

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
)

// serve answers at $PORT until it is told to end. It is healthy until a request breaks it.
func serve() {
	var broken atomic.Bool
	mux := http.NewServeMux()
	mux.HandleFunc("/healthz", func(w http.ResponseWriter, _ *http.Request) {
		if broken.Load() {
			http.Error(w, "the disk is gone", http.StatusServiceUnavailable)
		}
	})
	mux.HandleFunc("/break", func(http.ResponseWriter, *http.Request) { broken.Store(true) })
	l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", os.Getenv("PORT")))
	if err != nil {
		fail(err.Error())
	}
	fmt.Println(l.Addr())
	ctx, cancel := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer cancel()
	server := &http.Server{Handler: mux, ReadHeaderTimeout: time.Minute}
	go func() { _ = server.Serve(l) }()
	<-ctx.Done()
}

// litter leaves two processes that end at once, and prints how many of those are zombies.
func litter() {
	for range 2 {
		if err := exec.Command("/proc/self/exe", "abandon").Run(); err != nil {
			fail(err.Error())
		}
	}
	zombies := 0
	for range 100 {
		alive := 0
		alive, zombies = processes()
		if alive == 0 && zombies == 0 {
			break
		}
		time.Sleep(20 * time.Millisecond)
	}
	fmt.Println(zombies, "zombies")
}

// abandon starts a process that ends soon, and does not wait for it.
func abandon() {
	if err := exec.Command("/proc/self/exe", "echo").Start(); err != nil {
		fail(err.Error())
	}
}

// processes counts the processes besides this one and the first: the live ones, and the zombies.
func processes() (alive, zombies int) {
	files, err := os.ReadDir("/proc")
	if err != nil {
		fail(err.Error())
	}
	for _, f := range files {
		status, err := os.ReadFile("/proc/" + f.Name() + "/status")
		switch {
		case err != nil || f.Name() == "1" || f.Name() == "self" || f.Name() == "thread-self" || f.Name() == fmt.Sprint(os.Getpid()):
		case strings.Contains(string(status), "State:\tZ"):
			zombies++
		default:
			alive++
		}
	}
	return alive, zombies
}
