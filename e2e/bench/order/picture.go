package order

import (
	"bytes"
	"fmt"
	"html"
	"math"
	"strings"

	"github.com/escher-sched/escher/e2e/bench/rig"
)

// The sizes of a picture: two panels for each workload, and the list of the policies on the right.
const (
	panelWide, panelHigh = 380, 300
	marginLeft, marginUp = 70, 40
	legendWide, rowHigh  = 250, 16
)

// picture draws each workload: the mean wait against the longest one for each policy, and the mean waits by
// size.
func picture(rows []rig.Row) []byte {
	var groups [][]rig.Row
	for i, r := range rows {
		name, _, _ := strings.Cut(r.Scenario, "/")
		if before, _, _ := strings.Cut(rows[max(0, i-1)].Scenario, "/"); i == 0 || before != name {
			groups = append(groups, nil)
		}
		groups[len(groups)-1] = append(groups[len(groups)-1], r)
	}
	high := 0
	for _, g := range groups {
		high += groupHigh(g)
	}
	var b bytes.Buffer
	wide := 2*(panelWide+marginLeft) + legendWide
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="sans-serif" font-size="11">`+"\n", wide, high)
	fmt.Fprintf(&b, `<rect width="%d" height="%d" fill="white"/>`+"\n", wide, high)
	up := 0
	for _, g := range groups {
		drawGroup(&b, g, up)
		up += groupHigh(g)
	}
	b.WriteString("</svg>\n")
	return b.Bytes()
}

// groupHigh is the height of the panels of a workload, and of its list.
func groupHigh(g []rig.Row) int { return max(panelHigh+2*marginUp, (len(g)+4)*rowHigh) }

// drawGroup draws a workload.
func drawGroup(b *bytes.Buffer, g []rig.Row, up int) {
	name, _, _ := strings.Cut(g[0].Scenario, "/")
	var mean, long, size float64
	for _, r := range g {
		mean, long = max(mean, r.Value/3600), max(long, r.Details[longestWait]/3600)
		for _, c := range sizes() {
			size = max(size, r.Details[sizeWait+c+"_s"]/3600)
		}
	}
	right := 2*marginLeft + panelWide
	x, y := scale(mean, marginLeft, panelWide), scale(long, up+marginUp+panelHigh, -panelHigh)
	bySize := scale(size, up+marginUp+panelHigh, -panelHigh)
	text(b, marginLeft, up+marginUp/2, "start", "black", name+": longest wait by mean wait, hours")
	text(b, right, up+marginUp/2, "start", "black", "mean wait by size, hours")
	axis(b, marginLeft, up, long)
	axis(b, right, up, size)
	for i := range 5 {
		at := mean * float64(i) / 4
		text(b, int(x(at)), up+marginUp+panelHigh+16, "middle", "#555", fmt.Sprintf("%.3g", at))
	}
	column := panelWide / len(sizes())
	for i, c := range sizes() {
		text(b, right+column*i+column/2, up+marginUp+panelHigh+16, "middle", "#555", strings.ReplaceAll(c, "_", " "))
	}
	for i, r := range g {
		_, policy, _ := strings.Cut(r.Scenario, "/")
		color := fmt.Sprintf("hsl(%d,70%%,%d%%)", i*137%360, 35+i%3*10)
		at, over := x(r.Value/3600), y(r.Details[longestWait]/3600)
		fmt.Fprintf(b, `<circle cx="%.1f" cy="%.1f" r="4" fill="%s"/>`+"\n", at, over, color)
		text(b, int(at)+6, int(over)-4, "start", color, fmt.Sprint(i+1))
		var line []string
		for n, c := range sizes() {
			if wait, ok := r.Details[sizeWait+c+"_s"]; ok {
				line = append(line, fmt.Sprintf("%d,%.1f", right+column*n+column/2, bySize(wait/3600)))
			}
		}
		fmt.Fprintf(b, `<polyline points="%s" fill="none" stroke="%s" stroke-width="1.5"/>`+"\n", strings.Join(line, " "), color)
		text(b, right+panelWide+20, up+marginUp+rowHigh*i, "start", color,
			fmt.Sprintf("%d %s: %.3g h, %.3g h", i+1, policy, r.Value/3600, r.Details[longestWait]/3600))
	}
}

// scale maps 0 to most onto length pixels from an origin.
func scale(most float64, from, length int) func(float64) float64 {
	return func(v float64) float64 { return float64(from) + float64(length)*v/math.Max(most, 1e-9) }
}

// axis draws the lines of a panel, and their amounts up to most.
func axis(b *bytes.Buffer, left, up int, most float64) {
	y := scale(most, up+marginUp+panelHigh, -panelHigh)
	for i := range 5 {
		at := most * float64(i) / 4
		fmt.Fprintf(b, `<path d="M%d %.1fH%d" stroke="#ddd"/>`+"\n", left, y(at), left+panelWide)
		text(b, left-6, int(y(at))+4, "end", "#555", fmt.Sprintf("%.3g", at))
	}
}

// text writes a label.
func text(b *bytes.Buffer, x, y int, anchor, color, label string) {
	fmt.Fprintf(b, `<text x="%d" y="%d" text-anchor="%s" fill="%s">%s</text>`+"\n", x, y, anchor, color, html.EscapeString(label))
}
