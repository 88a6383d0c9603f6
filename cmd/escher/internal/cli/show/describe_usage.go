package show

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/escher-sched/escher/cmd/escher/internal/cli/cmdutil"
	"github.com/escher-sched/escher/cmd/escher/internal/cli/render"
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/nodeagent/serve/nodeapi"
	"github.com/escher-sched/escher/types/measured"
)

// usage is the usage of an attempt; nil if its node does not answer soon.
func (d *describing) usage(ctx context.Context, id cluster.ID, node string, attempt int) *measured.Task {
	ctx, cancel := context.WithTimeout(ctx, cmdutil.TopAnswer)
	defer cancel()
	var used measured.Task
	err := d.f.OnNode(ctx, node, func(c *nodeapi.Client) (err error) {
		used, err = c.UsageOf(ctx, id.Namespace, id.ID, attempt, time.Time{})
		return err
	})
	if err != nil {
		return nil
	}
	return &used
}

// writeUsage writes the usage, without unknown values.
func (t *taskDescription) writeUsage(s *render.Sheet) {
	u := t.Usage
	if u == nil {
		return
	}
	s.Group("Uses")
	s.Line("  cpu", cpuSentence(u.Use))
	s.Line("  memory", memorySentence(u.Use))
	s.Line("  disk", diskSentence(u.Use))
	if u.Processes != nil {
		s.Line("  processes", strconv.FormatInt(*u.Processes, 10))
	}
	s.Line("  pressure", render.PressureText(u.Pressure))
	var devices []string
	for _, d := range u.Devices {
		devices = append(devices, deviceSentence(d))
	}
	s.Lines("  devices", devices)
}

func cpuSentence(u measured.Use) string {
	var parts []string
	if u.CPUMilli != nil {
		parts = append(parts, render.CoresText(u.CPUMilli)+" cores")
	} else if u.CPUSeconds != nil {
		parts = append(parts, fmt.Sprintf("%.2f s so far", *u.CPUSeconds))
	}
	if u.ThrottledSeconds != nil {
		parts = append(parts, fmt.Sprintf("%.2f s held back by its limit", *u.ThrottledSeconds))
	}
	return strings.Join(parts, ", ")
}

func memorySentence(u measured.Use) string {
	if u.MemoryBytes == nil {
		return ""
	}
	text := render.BytesText(u.MemoryBytes)
	if part := render.OfLimitText(u); part != "" {
		text += ", " + part + " of " + render.BytesText(u.MemoryLimitBytes)
	}
	text += "; " + render.BytesText(u.MemoryRSSBytes) + " without files"
	if u.MemoryPeakBytes != nil {
		text += ", at most " + render.BytesText(u.MemoryPeakBytes) + " so far"
	}
	if kills := render.OrZero(u.OOMKills); kills > 0 {
		text += fmt.Sprintf("; processes killed for lack of it: %d", kills)
	}
	return text
}

func diskSentence(u measured.Use) string {
	if u.IOReadBytes == nil {
		return ""
	}
	text := render.BytesText(u.IOReadBytes) + " read, " + render.BytesText(u.IOWriteBytes) + " written"
	if u.IOReadBytesPerSecond != nil {
		text = fmt.Sprintf("reads %s/s, writes %s/s; ", render.RateText(u.IOReadBytesPerSecond), render.RateText(u.IOWriteBytesPerSecond)) + text
	}
	return text
}

func deviceSentence(d measured.Device) string {
	one := []measured.Device{d}
	var parts []string
	if text := render.BusyText(one); text != "" {
		parts = append(parts, text+" busy")
	}
	if text := render.DeviceMemoryText(one); text != "" {
		parts = append(parts, text+" of memory used")
	}
	if d.TaskMemoryBytes != nil {
		parts = append(parts, render.BytesText(d.TaskMemoryBytes)+" by this task")
	}
	return d.ID + ": " + cmdutil.First(strings.Join(parts, ", "), "nothing is known")
}
