package cmdutil

import (
	"bytes"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/escher-sched/escher/cmd/escher/internal/table"
	"github.com/escher-sched/escher/nodeagent/output/tasklog"
)

// Console shows the output of tasks: standard output on this program's, and the rest on its error
// output. The output of a single task is unchanged, unless its lines have times.
type Console struct {
	f *Factory
	// Many reports whether there are several tasks. Then whole lines are shown.
	Many bool
	// Prefix puts the id of the task before each line, Timestamps the time.
	Prefix, Timestamps bool
	// coloredOut and coloredErr report whether ids have colors there.
	coloredOut, coloredErr bool

	mu sync.Mutex
	// raw reports whether the terminal is in raw mode, in which lines need more.
	raw bool
	// drawn reports whether the last line is one that the next line replaces.
	drawn bool
	// tasks is the number of tasks so far, width the length of their longest id.
	tasks, width int
}

// NewConsole returns the console of one task or of many. Those of many have their ids before each
// line.
func NewConsole(f *Factory, many bool) *Console {
	c := &Console{f: f, Many: many, Prefix: many}
	_, _, terminal := f.TerminalSize(f.Out)
	c.coloredOut = f.colored(terminal)
	_, _, terminal = f.TerminalSize(f.Err)
	c.coloredErr = f.colored(terminal)
	return c
}

// ShowLines shows whole lines from now on, of several tasks.
func (c *Console) ShowLines(prefix bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.Many, c.Prefix = true, prefix
}

// lines reports whether whole lines are shown.
func (c *Console) lines() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.Many || c.Timestamps
}

// Say prints a line on the error output.
func (c *Console) Say(format string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.erase()
	if c.raw {
		fmt.Fprint(c.f.Err, "\r\n")
		defer fmt.Fprint(c.f.Err, "\r")
	}
	c.f.Tell(format, args...)
}

// SetRaw says whether the terminal is in raw mode.
func (c *Console) SetRaw(raw bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.raw = raw
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

// Of returns the output of a task.
func (c *Console) Of(id string) *TaskOutput {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.tasks++
	c.width = max(c.width, len(id))
	colors := prefixColors()
	return &TaskOutput{c: c, id: id, color: colors[(c.tasks-1)%len(colors)], open: make(map[tasklog.Stream]*Line)}
}

// prefixColors are the colors of ids, one for each task in turn.
func prefixColors() []string {
	return []string{"36", "33", "32", "35", "34", "96", "93", "92", "95", "94"}
}

// streamOf returns the writer for a stream, and whether ids have colors there. Output of unknown
// origin counts as standard output.
func (c *Console) streamOf(s tasklog.Stream) (to io.Writer, colored bool) {
	if s == tasklog.Stderr || s == tasklog.Note {
		return c.f.Err, c.coloredErr
	}
	return c.f.Raw(), c.coloredOut
}

// timestamps are like RFC 3339, in UTC, all of one width.
const (
	timestampForm = "2006-01-02T15:04:05.000000000Z"
	unknownTime   = "-                             "
)

// Print prints a line of a task.
func (c *Console) Print(o *TaskOutput, l *Line) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.erase()
	to, colored := c.streamOf(l.Stream)
	var b bytes.Buffer
	switch {
	case c.Prefix && colored:
		fmt.Fprintf(&b, "\x1b[%sm%-*s |\x1b[0m ", o.color, c.width, o.id)
	case c.Prefix:
		fmt.Fprintf(&b, "%-*s | ", c.width, o.id)
	}
	switch {
	case c.Timestamps && l.At.IsZero():
		b.WriteString(unknownTime + " ")
	case c.Timestamps:
		b.WriteString(l.At.UTC().Format(timestampForm) + " ")
	}
	b.Write(l.Text)
	b.WriteByte('\n')
	_, err := to.Write(b.Bytes())
	return err
}

// maxHeldBack is the most bytes of an incomplete line.
const maxHeldBack = 64 << 10

// Line is a line of a task's output, without its newline.
type Line struct {
	Stream tasklog.Stream
	// At is the time of its first byte; the zero value means unknown.
	At   time.Time
	Text []byte
}

// TaskOutput is the output of a task. It is for one goroutine at a time.
type TaskOutput struct {
	c         *Console
	id, color string
	// Take takes the lines instead of the console; nil means the console prints them.
	Take func(Line) error
	// open are the incomplete lines. cutOut and cutErr report whether output that was shown as it is
	// ended within a line.
	open           map[tasklog.Stream]*Line
	cutOut, cutErr bool
}

// Write shows a piece of output: its complete lines, or all of it if the console shows no lines.
func (o *TaskOutput) Write(p tasklog.Piece) error {
	if p.Stream == tasklog.Note {
		// Output is lost: what comes next continues no line. The note itself begins with the newline
		// that ends the line in the stored log.
		if err := o.Flush(); err != nil {
			return err
		}
		p.Text = bytes.TrimPrefix(p.Text, []byte("\n"))
	}
	if !o.c.lines() {
		return o.asIs(p)
	}
	line := o.open[p.Stream]
	if line == nil {
		line = &Line{Stream: p.Stream}
		o.open[p.Stream] = line
	}
	for rest := p.Text; len(rest) > 0; {
		if len(line.Text) == 0 {
			line.At = p.At
		}
		text, after, ended := bytes.Cut(rest, []byte("\n"))
		if !ended && len(line.Text)+len(text) > maxHeldBack {
			text, after, ended = rest[:maxHeldBack-len(line.Text)], rest[maxHeldBack-len(line.Text):], true
		}
		line.Text, rest = append(line.Text, text...), after
		if !ended {
			return nil
		}
		if err := o.end(line); err != nil {
			return err
		}
	}
	return nil
}

// asIs writes a piece unchanged.
func (o *TaskOutput) asIs(p tasklog.Piece) error {
	if len(p.Text) == 0 {
		return nil
	}
	o.c.mu.Lock()
	defer o.c.mu.Unlock()
	o.c.erase()
	cut := &o.cutOut
	if p.Stream == tasklog.Stderr || p.Stream == tasklog.Note {
		cut = &o.cutErr
	}
	*cut = p.Text[len(p.Text)-1] != '\n'
	to, _ := o.c.streamOf(p.Stream)
	_, err := to.Write(p.Text)
	return err
}

// end passes a line on, and begins the next one of its stream.
func (o *TaskOutput) end(line *Line) (err error) {
	if o.Take != nil {
		err = o.Take(Line{Stream: line.Stream, At: line.At, Text: bytes.Clone(line.Text)})
	} else {
		err = o.c.Print(o, line)
	}
	line.Text = line.Text[:0]
	return err
}

// Flush ends incomplete lines, before output that does not continue them.
func (o *TaskOutput) Flush() error {
	for s := tasklog.Unknown; s <= tasklog.Note; s++ {
		if line := o.open[s]; line != nil && len(line.Text) > 0 {
			if err := o.end(line); err != nil {
				return err
			}
		}
	}
	for s, cut := range map[tasklog.Stream]bool{tasklog.Stdout: o.cutOut, tasklog.Stderr: o.cutErr} {
		if !cut {
			continue
		}
		if err := o.asIs(tasklog.Piece{Stream: s, Text: []byte("\n")}); err != nil {
			return err
		}
	}
	return nil
}

// End shows incomplete lines at the end of the output. Output that is shown as it is has no newline
// added.
func (o *TaskOutput) End() error {
	if o.c.lines() {
		return o.Flush()
	}
	return nil
}
