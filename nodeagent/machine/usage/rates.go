package usage

import (
	"time"

	"github.com/escher-sched/escher/nodeagent/machine/cgroup"
	"github.com/escher-sched/escher/types/measured"
)

// sample is the usage read at a time.
type sample struct {
	at time.Time
	// started is when the process with these counters started; zero if not known.
	started time.Time
	stat    cgroup.Stat
}

const (
	// minOver is the minimum time for a rate: in less, most of the work is the start of the
	// container.
	minOver = 500 * time.Millisecond
	// maxOver is the maximum time for a rate: a mean of days does not tell the present usage.
	maxOver = 2 * MaxEvery
)

// use returns the usage at a sample, and the rates since the sample before it; a nil before means
// none. A process that started since then has counted from 0.
func use(before *sample, now sample) measured.Use {
	u := counted(now)
	if !now.started.IsZero() && (before == nil || now.started.After(before.at)) {
		before = &sample{at: now.started, stat: cgroup.Stat{CPU: new(cgroup.CPU), IO: new(cgroup.IO)}}
	}
	if before == nil {
		return u
	}
	over := now.at.Sub(before.at)
	if over < minOver || over > maxOver || restarted(before.stat, now.stat) {
		return u
	}
	seconds := over.Seconds()
	u.OverSeconds = seconds
	if a, b := before.stat.CPU, now.stat.CPU; a != nil && b != nil {
		u.CPUMilli = new((b.Used - a.Used).Seconds() / seconds * 1000)
	}
	if a, b := before.stat.IO, now.stat.IO; a != nil && b != nil {
		u.IOReadBytesPerSecond = new(float64(b.ReadBytes-a.ReadBytes) / seconds)
		u.IOWriteBytesPerSecond = new(float64(b.WriteBytes-a.WriteBytes) / seconds)
	}
	return u
}

// restarted reports whether counters were reset between two samples, which makes their difference
// meaningless.
func restarted(before, now cgroup.Stat) bool {
	if a, b := before.CPU, now.CPU; a != nil && b != nil && b.Used < a.Used {
		return true
	}
	a, b := before.IO, now.IO
	return a != nil && b != nil && (b.ReadBytes < a.ReadBytes || b.WriteBytes < a.WriteBytes)
}

// counted returns the usage of one sample, without rates.
func counted(s sample) measured.Use {
	u := measured.Use{At: s.at, Processes: s.stat.Processes, Pressure: pressure(s.stat.Pressure)}
	if c := s.stat.CPU; c != nil {
		u.CPUSeconds, u.ThrottledSeconds = new(c.Used.Seconds()), new(c.Throttled.Seconds())
	}
	if m := s.stat.Memory; m != nil {
		u.MemoryBytes, u.MemoryRSSBytes, u.OOMKills = &m.WorkingSet, &m.RSS, &m.OOMKills
		u.MemoryPeakBytes, u.MemoryLimitBytes = told(m.Peak), told(m.Limit)
	}
	if i := s.stat.IO; i != nil {
		u.IOReadBytes, u.IOWriteBytes, u.IOReads, u.IOWrites = &i.ReadBytes, &i.WriteBytes, i.Reads, i.Writes
	}
	return u
}

// told returns nil for 0, which means unknown.
func told(n int64) *int64 {
	if n == 0 {
		return nil
	}
	return &n
}

// pressure returns nil if nothing is known.
func pressure(p cgroup.Pressure) *measured.Pressure {
	if p == (cgroup.Pressure{}) {
		return nil
	}
	return &measured.Pressure{CPU: stall(p.CPU), Memory: stall(p.Memory), IO: stall(p.IO)}
}

func stall(s *cgroup.Stall) *measured.Stall {
	if s == nil {
		return nil
	}
	return &measured.Stall{SomePercent10s: s.Some10, FullPercent10s: s.Full10, SomeSeconds: s.Some.Seconds(), FullSeconds: s.Full.Seconds()}
}

// ring has the samples of one attempt or of the machine, the oldest first.
type ring []sample

// with returns the ring with another sample. It drops samples older than keep. It replaces a last
// sample that came less than every after its predecessor, so that frequent queries do not make the
// ring longer.
func (r ring) with(s sample, every, keep time.Duration) ring {
	if n := len(r); n > 1 && s.at.Sub(r[n-2].at) <= every {
		r[n-1] = s
		return r
	}
	first := 0
	for first < len(r) && s.at.Sub(r[first].at) > keep {
		first++
	}
	return append(r[:0], append(r[first:], s)...)
}

// last returns the usage at the latest sample.
func (r ring) last() measured.Use {
	n := len(r)
	if n == 1 {
		return use(nil, r[0])
	}
	return use(&r[n-2], r[n-1])
}

// since returns the usage at the samples after a time.
func (r ring) since(t time.Time) []measured.Use {
	var all []measured.Use
	for i, s := range r {
		switch {
		case !s.at.After(t):
		case i == 0:
			all = append(all, use(nil, s))
		default:
			all = append(all, use(&r[i-1], s))
		}
	}
	return all
}
