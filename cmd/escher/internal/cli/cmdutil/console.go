package cmdutil

import (
	"bytes"
	"fmt"
	"io"
	"sync"

	"github.com/escher-sched/escher/cmd/escher/internal/table"
)

// Console is the output of several tasks at once: whole lines of each, with the task
// before it. Of a single one, it is what the task writes.
type Console struct {
	f *Factory
	// Many tells that there are several.
	Many bool

	mu sync.Mutex
	// drawn tells that a line stands there which the next one replaces.
	drawn bool
}

func NewConsole(f *Factory, many bool) *Console { return &Console{f: f, Many: many} }

// Say prints a line on the error output.
func (c *Console) Say(format string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.erase()
	c.f.Tell(format, args...)
}

// Draw puts a line on the terminal, in the place of the one that it put there last;
// an empty one removes that.
func (c *Console) Draw(text string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.erase()
	if c.drawn = text != ""; c.drawn {
		fmt.Fprintf(c.f.Err, "escher: %s", table.Line(text))
	}
}

// erase removes the line that was drawn. The caller holds the lock.
func (c *Console) erase() {
	if c.drawn {
		c.drawn = false
		fmt.Fprint(c.f.Err, EraseDown)
	}
}

// Of returns where the output of a task goes.
func (c *Console) Of(id string) *LineWriter {
	w := &LineWriter{mu: &c.mu, to: c.f.Raw()}
	if c.Many {
		w.prefix = id + " | "
	}
	return w
}

// maxHeldBack is how long what is no whole line yet may get.
const maxHeldBack = 64 << 10

// LineWriter writes whole lines, each with a prefix; without one, what it is given.
type LineWriter struct {
	mu     *sync.Mutex
	to     io.Writer
	prefix string
	rest   []byte
}

// Write takes in text and writes the lines that are complete.
func (w *LineWriter) Write(text []byte) (int, error) {
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

// Flush writes what is left as a line.
func (w *LineWriter) Flush() error {
	if len(w.rest) == 0 {
		return nil
	}
	_, err := w.Write([]byte("\n"))
	return err
}
