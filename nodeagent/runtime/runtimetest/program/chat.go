package main

import (
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"
)

// chat writes numbered lines until SIGTERM, and then the number of the last one.
func chat() (int, error) {
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM)
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for n := 1; ; n++ {
		if _, err := fmt.Println("line", n); err != nil {
			return 1, err
		}
		select {
		case <-tick.C:
		case <-stop:
			fmt.Println("end", n)
			return 0, nil
		}
	}
}

// anyBytes writes a line longer than any buffer, bytes that are not text, and no final newline.
func anyBytes() (int, error) {
	_, err := os.Stdout.WriteString(strings.Repeat("0123456789abcdef", 20_000) + "\x1b[31mred\x1b[0m\r\n\x00\xff\xfe\nthe end")
	return 0, err
}
