package cmdutil

import (
	"fmt"
	"sync"
	"time"
)

// ProgressAfter is how long something may take before it is said that it takes its
// time.
const ProgressAfter = time.Second

// Progress tells on the error output what takes its time, from a second on and with
// the seconds, until done is called. Without a terminal it tells nothing.
func (f *Factory) Progress(text string) (done func()) {
	if _, _, terminal := f.TerminalSize(f.Err); !terminal {
		return func() {}
	}
	stop, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(ProgressAfter)
		defer tick.Stop()
		for seconds := 1; ; seconds++ {
			select {
			case <-tick.C:
				fmt.Fprintf(f.Err, "%sescher: %s … %d s", EraseDown, text, seconds)
				continue
			case <-stop:
			}
			if seconds > 1 {
				fmt.Fprint(f.Err, EraseDown)
			}
			return
		}
	}()
	return sync.OnceFunc(func() {
		close(stop)
		<-ended
	})
}

// ProgressLine tells how far something is that takes its time.
func (f *Factory) ProgressLine(format string, args ...any) {
	f.Tell(""+format+"", args...)
}
