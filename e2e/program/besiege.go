package main

import (
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"time"
)

// besiege attacks the socket of its own task: connections that send a head of 1 MiB, and bodies of
// very many elements. It prints the number of attempts of each.
func besiege() {
	const connections, rounds, large = 4000, 8, 4<<20 - 100
	socket := os.Getenv("ESCHER_SOCKET")
	head := "GET /v1/whoami HTTP/1.1\r\nX: " + strings.Repeat("x", 1<<20)
	var all sync.WaitGroup
	for range connections {
		all.Go(func() {
			conn, err := net.Dial("unix", socket)
			if err != nil {
				return
			}
			_ = conn.SetDeadline(time.Now().Add(time.Second))
			_, _ = io.WriteString(conn, head)
			_ = conn.Close()
		})
	}
	client := overSocket(socket)
	for _, body := range []string{
		`{"tasks":[` + strings.Repeat("{},", large/3) + "{}]}",
		`{"tasks":[` + strings.Repeat("{},", 16_000) + "{}]}",
		strings.Repeat("[", large),
	} {
		for range rounds {
			all.Go(func() {
				if res, err := client.Post("http://x/v1/namespaces/"+os.Getenv("ESCHER_NAMESPACE")+"/tasks", "application/json", strings.NewReader(body)); err == nil {
					_, _ = io.Copy(io.Discard, res.Body)
					_ = res.Body.Close()
				}
			})
		}
	}
	all.Wait()
	fmt.Println("besieged:", connections, "heads and", 3*rounds, "bodies")
}
