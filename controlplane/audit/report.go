package audit

import (
	"github.com/escher-sched/escher/types"
)

// noOrphanReport validates NoOrphanReport: a report belongs to the present binding, and goes with
// it.
func noOrphanReport(b *binding, found finder) {
	r := b.report.V
	switch {
	case r == nil:
	case b.info.V == nil:
		found("report "+b.String(), "has no binding")
	case r.Binding != b.info.Create:
		found("report "+b.String(), "belongs to the binding of revision %d, but the present one is of revision %d", r.Binding, b.info.Create)
	}
}

// exitIsFinal validates NoOrphanReport for a change: an exited attempt stays exited.
func (s *state) exitIsFinal(b *binding, found finder) {
	was, is := b.report.before(s.revision), b.report.V
	if was != nil && was.Phase == types.ReportExited && is != nil && is.Phase != types.ReportExited {
		found("report "+b.String(), "had exited, and is %s", is.Phase)
	}
}
