package main

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// fork makes idle processes until it gets no more, at most most of them, prints their number, and
// continues for an hour: a fork bomb.
func fork(most string) {
	n, err := strconv.Atoi(most)
	if err != nil {
		fail(err.Error())
	}
	made := 0
	for ; made < n; made++ {
		pid, _, errno := syscall.RawSyscall6(syscall.SYS_CLONE, uintptr(syscall.SIGCHLD), 0, 0, 0, 0, 0)
		if errno != 0 {
			break
		}
		for pid == 0 {
			// In the child, nothing of Go works but this.
			_, _, _ = syscall.RawSyscall6(syscall.SYS_PPOLL, 0, 0, 0, 0, 0, 0)
		}
	}
	fmt.Printf("made %d of %d\n", made, n)
	time.Sleep(time.Hour)
}

// ask gets each URL, without a token or a certificate, and prints the answers: a status, or that
// there was none.
func ask(urls []string) {
	client := http.Client{
		Timeout:   5 * time.Second,
		Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}},
	}
	for _, url := range urls {
		answer, err := client.Get(url)
		if err != nil {
			what := "no answer"
			if _, ok := errors.AsType[*net.OpError](err); ok && strings.Contains(err.Error(), "tls: certificate required") {
				what = "a certificate is required"
			}
			fmt.Printf("%s: %s\n", url, what)
			continue
		}
		_ = answer.Body.Close()
		fmt.Printf("%s: %d\n", url, answer.StatusCode)
	}
}
