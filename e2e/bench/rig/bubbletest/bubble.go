// Package bubbletest runs a part of the bench in virtual time: the bubble of testing/synctest, which
// only a test program has. Time passes when every goroutine waits.
package bubbletest

import (
	"context"
	"flag"
	"fmt"
	"os"
	"testing"
	"testing/synctest"
)

// Exit runs f in virtual time, which begins at midnight UTC of 2000-01-01, and ends the process: with
// code 0 if f returns nil, and with its error on the standard output otherwise.
func Exit(f func(context.Context) error) {
	testing.Init()
	if err := flag.CommandLine.Parse(nil); err != nil { // the arguments are not those of a test
		fmt.Println(err)
		os.Exit(1)
	}
	all := func(string, string) (bool, error) { return true, nil }
	testing.Main(all, []testing.InternalTest{{Name: "bubble", F: func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			if err := f(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}}}, nil, nil)
}
