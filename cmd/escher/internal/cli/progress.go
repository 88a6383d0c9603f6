package cli

import (
	"fmt"
	"sync"
	"time"
)

// progressAfter is how long something may take before it is said that it takes its
// time.
const progressAfter = time.Second

// progress tells on the error output what takes its time, from a second on and with
// the seconds, until done is called. Without a terminal it tells nothing.
func (f *Factory) progress(text string) (done func()) {
	if _, _, terminal := f.terminalSize(f.Err); !terminal {
		return func() {}
	}
	stop, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(progressAfter)
		defer tick.Stop()
		for seconds := 1; ; seconds++ {
			select {
			case <-tick.C:
				fmt.Fprintf(f.Err, "%sescher: %s … %d s", eraseDown, text, seconds)
				continue
			case <-stop:
			}
			if seconds > 1 {
				fmt.Fprint(f.Err, eraseDown)
			}
			return
		}
	}()
	return sync.OnceFunc(func() {
		close(stop)
		<-ended
	})
}
