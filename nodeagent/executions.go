package nodeagent

import (
	"context"
	"errors"

	"go.uber.org/zap"

	"github.com/escher-sched/escher/nodeagent/fence/execlog"
	"github.com/escher-sched/escher/nodeagent/fence/watchdog"
	"github.com/escher-sched/escher/types"
	"github.com/escher-sched/escher/types/execution"
)

// openFiles opens the execution log and the page for the watchdog. Without a state directory there
// are none.
func (a *Agent) openFiles() (err error) {
	if a.cfg.StateDir == "" {
		return nil
	}
	if a.deadline, err = watchdog.OpenPage(a.cfg.StateDir); err != nil {
		return err
	}
	a.executions, err = execlog.Open(execlog.Config{Dir: a.cfg.StateDir, BootClock: a.cfg.BootClock, BootID: a.cfg.BootID})
	if err != nil {
		return errors.Join(err, a.deadline.Close())
	}
	return nil
}

// closeFiles closes the files of openFiles.
func (a *Agent) closeFiles() {
	if a.cfg.StateDir == "" {
		return
	}
	if err := errors.Join(a.executions.Close(), a.deadline.Close()); err != nil {
		a.log.Error("the log of executions may lack its end", zap.Error(err))
	}
}

// start has the runtime start a container, after it logged the execution, and only while the
// session lasts. Unavailable: it could not log the execution, or the session may end.
func (t *task) start(ctx context.Context, c Container) (Started, error) {
	if log := t.a.executions; log != nil {
		if err := log.Start(ctx, t.execution(c.Restart)); err != nil {
			return Started{}, err
		}
	}
	if !t.kept() {
		c.MayStart = t.a.mayStart
	}
	return t.a.cfg.Runtime.Start(ctx, c)
}

// mayStart returns an error if the session may end. It checks the clock and no earlier decision:
// this process may have been frozen since.
func (a *Agent) mayStart() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if left := a.life.warn() - a.cfg.BootClock(); left <= 0 {
		return types.Errorf(types.Unavailable, "start a process: the session is not certain to last: it was last renewed %s ago", a.cfg.BootClock()-a.life.sent)
	}
	return nil
}

// kept reports whether the attempt outlives the session.
func (t *task) kept() bool {
	t.a.mu.Lock()
	defer t.a.mu.Unlock()
	return t.binding != nil && t.binding.OnDisconnect == types.Keep
}

// execution returns the record of a process of the attempt.
func (t *task) execution(restart int) execution.Record {
	return execution.Record{
		Container: t.id, Restart: restart, Node: t.attempt.Node, Namespace: t.attempt.Namespace,
		Task: t.attempt.Task, Attempt: t.attempt.Number, Revision: t.attempt.Revision,
	}
}

// noteEnd logs the end that a report states, before the report is stored: afterwards another
// process may start.
func (t *task) noteEnd(ctx context.Context, report *types.Report) {
	log := t.a.executions
	t.a.mu.Lock()
	again := report.Ended != 0 && report.Restarts > t.seen.Restart
	if log == nil || report.Phase != types.ReportExited && !again {
		t.a.mu.Unlock()
		return
	}
	r := t.execution(t.seen.Restart)
	r.Reason = report.Reason
	if r.Ran = t.seen.Container == Exited || t.seen.Ran; r.Ran && t.seen.Container == Exited {
		r.Code = &report.ExitCode
	}
	t.a.mu.Unlock()
	if err := log.End(ctx, r); err != nil && ctx.Err() == nil {
		t.log.Error("its end is reported without being noted", zap.Error(err))
	}
}

// noteGone logs the end of every started container for which there is false. These containers are
// gone, and reported no end.
func (a *Agent) noteGone(ctx context.Context, reason string, there func(id string) bool) {
	if a.executions == nil {
		return
	}
	var gone []execution.Record
	for _, r := range a.executions.Running() {
		if !there(r.Container) {
			r.Reason = reason
			gone = append(gone, r)
		}
	}
	err := each(gone, func(r execution.Record) error { return a.executions.End(ctx, r) })
	if err != nil && ctx.Err() == nil {
		a.log.Error("ends are not noted", zap.Error(err))
	}
}
