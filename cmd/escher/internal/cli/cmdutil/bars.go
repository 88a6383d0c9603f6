package cmdutil

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"

	"github.com/escher-sched/escher/nodeagent/serve/nodeapi"
)

// Bars shows the progress of several nodes with an image on the error output: bars on a terminal,
// else a line for each new step, from ProgressAfter on.
type Bars struct {
	f    *Factory
	verb string
	// display is nil without a terminal.
	display *mpb.Progress
	began   time.Time

	Mu    sync.Mutex
	nodes map[string]*bar
}

// bar is the progress of one node.
type bar struct {
	line *mpb.Bar
	said string
	// shown is a copy of said for drawing, which must not wait for Bars.Mu.
	shown atomic.Pointer[string]
}

// NewBars makes bars; the caller closes them. verb says what the nodes do.
func NewBars(f *Factory, verb string) *Bars {
	b := &Bars{f: f, verb: verb, began: time.Now(), nodes: make(map[string]*bar)}
	if width, _, terminal := f.TerminalSize(f.Err); terminal {
		b.display = mpb.New(mpb.WithOutput(f.Err), mpb.WithWidth(min(40, width/3)))
	}
	return b
}

// Close leaves the bars on the screen.
func (b *Bars) Close() {
	if b.display == nil {
		return
	}
	b.Mu.Lock()
	for _, n := range b.nodes {
		n.line.Abort(false)
	}
	b.Mu.Unlock()
	b.display.Wait()
}

// Of returns the bar of a node. The caller holds b.Mu.
func (b *Bars) Of(node string) *bar {
	n := b.nodes[node]
	if n != nil {
		return n
	}
	n = new(bar)
	b.nodes[node] = n
	if b.display != nil {
		n.line = b.display.AddBar(0,
			mpb.PrependDecorators(decor.Name(node, decor.WCSyncSpaceR)),
			mpb.AppendDecorators(decor.Any(func(decor.Statistics) string {
				if text := n.shown.Load(); text != nil {
					return *text
				}
				return ""
			})))
	}
	return n
}

// Update shows the progress of a node.
func (b *Bars) Update(node string, p nodeapi.Pull) {
	b.Mu.Lock()
	defer b.Mu.Unlock()
	n := b.Of(node)
	b.Say(node, n, b.Text(p))
	if n.line != nil {
		n.line.SetTotal(p.Total, false)
		n.line.SetCurrent(p.Done)
	}
}

// Text says what a node does.
func (b *Bars) Text(p nodeapi.Pull) string {
	switch {
	case p.Trouble != "":
		return "trying again: " + p.Trouble
	case p.Unpacking:
		return "unpacking"
	}
	return b.verb
}

// Ended shows that a node is done. The error of the command says why it failed.
func (b *Bars) Ended(node string, err error) {
	b.Mu.Lock()
	defer b.Mu.Unlock()
	n := b.Of(node)
	text := "done"
	if err != nil {
		text = "failed"
	}
	b.Say(node, n, text)
	if n.line != nil {
		n.line.SetTotal(-1, err == nil)
		if err != nil {
			n.line.Abort(false)
		}
	}
}

// Say stores what a node does. Without a terminal it also prints new texts, from ProgressAfter on.
// The caller holds b.Mu.
func (b *Bars) Say(node string, n *bar, text string) {
	if text == n.said {
		return
	}
	n.said = text
	n.shown.Store(&text)
	if b.display == nil && time.Since(b.began) >= ProgressAfter {
		b.f.Tell("%s: %s", node, text)
	}
}
