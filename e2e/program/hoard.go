package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"
)

// overSocket returns a client of the server at a Unix socket.
func overSocket(path string) *http.Client {
	return &http.Client{Timeout: time.Minute, Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", path)
		},
	}}
}

// hoard sets a number of resources of its namespace, a few hundred per transaction, until it is
// refused. It prints how many it has set, and why no more.
func hoard(count string) {
	const each = 250
	total, _ := strconv.Atoi(count)
	socket := os.Getenv("ESCHER_SOCKET")
	client := overSocket(socket)
	n := 0
	for n < total {
		var sets []string
		for i := n; i < min(n+each, total); i++ {
			sets = append(sets, fmt.Sprintf(`{"name":"hoard-%d","capacity":"1","where":{"cluster":true}}`, i))
		}
		res, err := client.Post("http://x/v1/namespaces/"+os.Getenv("ESCHER_NAMESPACE")+"/transactions", "application/json", strings.NewReader(`{"set":[`+strings.Join(sets, ",")+`]}`))
		if err != nil {
			fail(err.Error())
		}
		text, _ := io.ReadAll(res.Body)
		_ = res.Body.Close()
		switch res.StatusCode {
		case http.StatusOK:
			n += len(sets)
		case http.StatusTooManyRequests:
			time.Sleep(time.Second)
		default:
			fmt.Println("hoarded", n, "then", res.StatusCode, string(text))
			return
		}
	}
	fmt.Println("hoarded", n)
}
