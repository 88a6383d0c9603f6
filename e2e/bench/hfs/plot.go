package hfs

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/escher-sched/escher/controlplane"
	view "github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/e2e/bench/rig"
	"github.com/escher-sched/escher/esl/share"
	"github.com/escher-sched/escher/types"
)

// sampleEvery is the sampling interval.
const sampleEvery = 100 * time.Millisecond

// usagePoints are points with one writer and one reader.
type usagePoints struct {
	mu   sync.Mutex
	list []usagePoint
}

func (p *usagePoints) add(x usagePoint) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.list = append(p.list, x)
}

func (p *usagePoints) all() []usagePoint {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.list)
}

// follow records the usage of each user, until ctx is done.
func (s *usageSeries) follow(ctx context.Context, c *rig.Cluster, begin time.Time) error {
	var mu sync.Mutex
	v := view.New()
	ended := make(chan error, 1)
	go func() {
		opts := controlplane.ListWatchOptions{Prefix: controlplane.Prefix(controlplane.Allocated)}
		ended <- controlplane.ListWatch(ctx, c.Watched, opts, func(u controlplane.Update) error {
			mu.Lock()
			defer mu.Unlock()
			for _, e := range u.Events {
				if _, _, err := v.Apply(e); err != nil {
					return err
				}
			}
			v.Reached(u.Revision)
			return nil
		})
	}()
	tick := time.NewTicker(c.Config.Scaled(sampleEvery))
	defer tick.Stop()
	for {
		select {
		case err := <-ended:
			return err
		case now := <-tick.C:
			mu.Lock()
			p := s.look(v)
			mu.Unlock()
			p.at = time.Duration(float64(now.Sub(begin)) * c.Config.Speed)
			s.points.add(p)
		}
	}
}

// look returns the usage of each user.
func (s *usageSeries) look(v *view.View) usagePoint {
	p := usagePoint{held: make([]float64, len(s.users))}
	for i, u := range s.users {
		pool := "teams." + share.FairShare{}.Kind() + "." + strings.ReplaceAll(u.path, "/", ".") + "." + string(types.CPU)
		rid := types.Resolve(rig.Namespace, pool)
		if a := v.Pools[rid]; a != nil && a.Allocated.V != nil {
			p.held[i] = float64(a.Allocated.V.Of(rid)) / 1000
		}
	}
	for _, n := range v.Nodes {
		p.used += float64(n.Used(types.CPU)) / 1000
	}
	return p
}

// The size of the picture, and the position of its axes.
const (
	svgWidth, svgHeight = 760, 380
	svgLeft, svgRight   = 60, 20
	svgTop, svgBottom   = 40, 50
)

// svg draws the usage of each user over time, and the fair shares as dashed lines.
func (s *usageSeries) svg() []byte {
	var b bytes.Buffer
	x := func(at time.Duration) float64 {
		return svgLeft + (svgWidth-svgLeft-svgRight)*at.Seconds()/(3*phaseLasts.Seconds())
	}
	y := func(cores float64) float64 { return svgHeight - svgBottom - (svgHeight-svgTop-svgBottom)*cores/s.cores }
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="sans-serif" font-size="12">`+"\n", svgWidth, svgHeight)
	fmt.Fprintf(&b, `<rect width="%d" height="%d" fill="white"/>`+"\n", svgWidth, svgHeight)
	for i := range 5 {
		at := s.cores * float64(i) / 4
		fmt.Fprintf(&b, `<path d="M%d %.1fH%d" stroke="#ddd"/><text x="%d" y="%.1f" text-anchor="end">%.0f</text>`+"\n", svgLeft, y(at), svgWidth-svgRight, svgLeft-6, y(at)+4, at)
	}
	for i := range 7 {
		at := time.Duration(i) * phaseLasts / 2
		fmt.Fprintf(&b, `<text x="%.1f" y="%d" text-anchor="middle">%.0f</text>`+"\n", x(at), svgHeight-svgBottom+18, at.Seconds())
	}
	fmt.Fprintf(&b, `<text x="%d" y="%d" text-anchor="middle">seconds</text><text x="%d" y="%d">cores</text>`+"\n", (svgLeft+svgWidth-svgRight)/2, svgHeight-12, svgLeft-40, svgTop-14)
	points := s.points.all()
	line := func(color, label string, row int, of func(usagePoint) float64) {
		fmt.Fprintf(&b, `<path fill="none" stroke="%s" stroke-width="1.5" d="`, color)
		for i, p := range points {
			fmt.Fprintf(&b, "%c%.1f %.1f", "ML"[min(i, 1)], x(p.at), y(of(p)))
		}
		fmt.Fprintf(&b, `"/><text x="%d" y="%d" fill="%s">%s</text>`+"\n", svgLeft+40+110*row, svgTop-14, color, label)
	}
	for i, u := range s.users {
		for phase, part := range u.parts {
			if part > 0 {
				fmt.Fprintf(&b, `<path d="M%.1f %.1fH%.1f" stroke="%s" stroke-dasharray="6 4" opacity="0.6"/>`+"\n",
					x(time.Duration(phase)*phaseLasts), y(part*s.cores), x(time.Duration(phase+1)*phaseLasts), u.color)
			}
		}
		line(u.color, u.path, i, func(p usagePoint) float64 { return p.held[i] })
	}
	line("#888", "in use", len(s.users), func(p usagePoint) float64 { return p.used })
	b.WriteString("</svg>\n")
	return b.Bytes()
}
