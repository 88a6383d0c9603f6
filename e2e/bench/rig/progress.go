package rig

import (
	"fmt"
	"io"
	"sync/atomic"

	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"
)

// progress shows the progress: on a terminal with a bar of the measurements, otherwise in lines.
type progress struct {
	to io.Writer
	// display is nil without a terminal.
	display *mpb.Progress
	bar     *mpb.Bar
	now     atomic.Pointer[string]
	begun   int
}

func newProgress(to io.Writer, width int) *progress {
	p := &progress{to: to}
	if width == 0 {
		return p
	}
	p.display = mpb.New(mpb.WithOutput(to), mpb.WithWidth(min(30, width/3)), mpb.WithAutoRefresh())
	// Only a bar that begins without a total can change it.
	p.bar = p.display.AddBar(0,
		mpb.PrependDecorators(decor.CountersNoUnit("%d of %d")),
		mpb.AppendDecorators(decor.Elapsed(decor.ET_STYLE_GO), decor.Any(func(decor.Statistics) string {
			if text := p.now.Load(); text != nil {
				return " " + *text
			}
			return ""
		})))
	return p
}

// total sets the number of measurements of a scenario.
func (p *progress) total(n int) {
	p.begun = 0
	if p.bar != nil {
		p.bar.SetCurrent(0)
		p.bar.SetTotal(int64(n), false)
	}
}

// step begins a measurement.
func (p *progress) step(text string) {
	if p.bar == nil {
		return
	}
	p.now.Store(&text)
	p.bar.SetCurrent(int64(p.begun))
	p.begun++
}

// say prints a line.
func (p *progress) say(format string, args ...any) {
	line := fmt.Sprintf(format+"\n", args...)
	if p.display == nil {
		_, _ = io.WriteString(p.to, line) // there is nowhere to report an error
		return
	}
	_, _ = io.WriteString(p.display, line)
}

// close ends the bar and keeps the printed lines.
func (p *progress) close() {
	if p.display == nil {
		return
	}
	p.bar.Abort(true)
	p.display.Wait()
}
