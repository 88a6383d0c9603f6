package cmdutil

import (
	"fmt"
	"sync"
	"time"
)

// ProgressAfter is how long an operation may take before its progress is shown.
const ProgressAfter = time.Second

// Progress shows on the error output that an operation takes long, from ProgressAfter on and with
// the seconds, until done is called. Without a terminal it shows nothing.
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

// ProgressLine shows the progress of a long operation.
func (f *Factory) ProgressLine(format string, args ...any) {
	f.Tell(""+format+"", args...)
}
