package cmdutil

import (
	"bytes"
	"fmt"
	"io"
	"sync"

	"github.com/escher-sched/escher/cmd/escher/internal/table"
)

// Console is the output of several tasks at once: whole lines, with the task before each. The
// output of a single task is unchanged.
type Console struct {
	f *Factory
	// Many reports whether there are several tasks.
	Many bool

	mu sync.Mutex
	// drawn reports whether the last line is one that the next line replaces.
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

// Draw puts a line on the terminal in place of the one it drew last; an empty one removes that.
func (c *Console) Draw(text string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.erase()
	if c.drawn = text != ""; c.drawn {
		fmt.Fprintf(c.f.Err, "escher: %s", table.Line(text))
	}
}

// erase removes the drawn line. The caller holds the lock.
func (c *Console) erase() {
	if c.drawn {
		c.drawn = false
		fmt.Fprint(c.f.Err, EraseDown)
	}
}

// Of returns the writer for the output of a task.
func (c *Console) Of(id string) *LineWriter {
	w := &LineWriter{mu: &c.mu, to: c.f.Raw()}
	if c.Many {
		w.prefix = id + " | "
	}
	return w
}

// maxHeldBack is the most bytes of an incomplete line.
const maxHeldBack = 64 << 10

// LineWriter writes whole lines, each with a prefix; without one, the text as it is.
type LineWriter struct {
	mu     *sync.Mutex
	to     io.Writer
	prefix string
	rest   []byte
}

// Write adds text and writes the complete lines.
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

// Flush writes the rest as a line.
func (w *LineWriter) Flush() error {
	if len(w.rest) == 0 {
		return nil
	}
	_, err := w.Write([]byte("\n"))
	return err
}
