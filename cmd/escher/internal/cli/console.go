package cli

import (
	"bytes"
	"fmt"
	"io"
	"sync"

	"github.com/escher-sched/escher/cmd/escher/internal/table"
)

// console is the output of several tasks at once: whole lines of each, with the task
// before it. Of a single one, it is what the task writes.
type console struct {
	f *Factory
	// many tells that there are several.
	many bool

	mu sync.Mutex
	// drawn tells that a line stands there which the next one replaces.
	drawn bool
}

func newConsole(f *Factory, many bool) *console { return &console{f: f, many: many} }

// say prints a line on the error output.
func (c *console) say(format string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.erase()
	c.f.tell(format, args...)
}

// draw puts a line on the terminal, in the place of the one that it put there last;
// an empty one removes that.
func (c *console) draw(text string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.erase()
	if c.drawn = text != ""; c.drawn {
		fmt.Fprintf(c.f.Err, "escher: %s", table.Line(text))
	}
}

// erase removes the line that was drawn. The caller holds the lock.
func (c *console) erase() {
	if c.drawn {
		c.drawn = false
		fmt.Fprint(c.f.Err, eraseDown)
	}
}

// of returns where the output of a task goes.
func (c *console) of(id string) *lineWriter {
	w := &lineWriter{mu: &c.mu, to: c.f.raw()}
	if c.many {
		w.prefix = id + " | "
	}
	return w
}

// maxHeldBack is how long what is no whole line yet may get.
const maxHeldBack = 64 << 10

// lineWriter writes whole lines, each with a prefix; without one, what it is given.
type lineWriter struct {
	mu     *sync.Mutex
	to     io.Writer
	prefix string
	rest   []byte
}

// Write takes in text and writes the lines that are complete.
func (w *lineWriter) Write(text []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.prefix == "" {
		return w.to.Write(text)
	}
	w.rest = append(w.rest, text...)
	for {
		line, rest, ok := bytes.Cut(w.rest, []byte("\n"))
		if !ok && len(w.rest) < maxHeldBack {
			return len(text), nil
		}
		if _, err := fmt.Fprintf(w.to, "%s%s\n", w.prefix, line); err != nil {
			return 0, err
		}
		w.rest = rest
	}
}

// flush writes what is left as a line.
func (w *lineWriter) flush() error {
	if len(w.rest) == 0 {
		return nil
	}
	_, err := w.Write([]byte("\n"))
	return err
}
