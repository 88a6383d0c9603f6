package nodeagent

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"syscall"
	"time"

	"go.uber.org/zap"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/supervise"
	"github.com/escher-sched/escher/types"
)

// errOver ends one life of the agent and begins the next: the session is lost, or the history of
// the store changed.
var errOver = errors.New("the session is over")

// historyEvery is the number of renewals per check of the store's history.
const historyEvery = 3

// open returns the session of the node: the previous one if its lease still exists, or a new one.
// Before a new session, it removes every container except those of bindings that outlive the
// previous session.
func (a *Agent) open(ctx context.Context) (session int64, err error) {
	err = a.retry(ctx, "open session", func() error {
		session, err = a.tryOpen(ctx)
		return err
	})
	return session, err
}

// tryOpen makes one attempt at open.
func (a *Agent) tryOpen(ctx context.Context) (int64, error) {
	epoch, revision, err := a.history(ctx)
	if err != nil {
		return 0, err
	}
	st := a.state.get()
	if st.betrayed(epoch, revision) {
		a.log.Warn("the store was restored from a backup: everything is stopped",
			zap.Int64("revision", revision), zap.String("reason", fmt.Sprintf("it was at revision %d of epoch %q, and is of %q", st.Revision, st.Epoch, epoch)))
		return 0, a.forgetHistory(ctx, st, epoch)
	}
	if err := a.mayRenew(ctx); err != nil {
		return 0, err
	}
	if st.Lease != 0 {
		session, err := a.resume(ctx, st.Lease, epoch, revision)
		if err != nil || session != 0 {
			return session, err
		}
	}
	return a.begin(ctx, epoch, revision)
}

// betrayed reports whether the store's history is not the one on which the agent acted.
func (s *state) betrayed(epoch string, revision int64) bool {
	return revision < s.Revision || s.Epoch != "" && epoch != s.Epoch
}

// history returns the epoch of the store and its newest revision. An empty epoch means that the
// store was never restored.
func (a *Agent) history(ctx context.Context) (epoch string, revision int64, err error) {
	page, err := a.cfg.Store.List(ctx, controlplane.ListOptions{Key: controlplane.EpochKey()})
	if err != nil {
		return "", 0, err
	}
	if len(page.KVs) == 1 {
		epoch = hex.EncodeToString(page.KVs[0].Value)
	}
	return epoch, page.Revision, nil
}

// forgetHistory removes all containers of another history and revokes the session's lease. The
// returned error requests another try.
func (a *Agent) forgetHistory(ctx context.Context, st state, epoch string) error {
	if err := a.clear(ctx, nil); err != nil {
		return err
	}
	a.peers.Forget()
	if err := a.cfg.Store.RevokeLease(ctx, st.Lease); st.Lease != 0 && err != nil && !types.Is(err, types.NotFound) {
		return err
	}
	if err := a.state.change(true, func(s *state) { *s = state{Epoch: epoch} }); err != nil {
		return err
	}
	return types.Errorf(types.Unavailable, "open session: the last one was of another history")
}

// resume resumes the session of a lease; 0 means that it is over.
func (a *Agent) resume(ctx context.Context, lease controlplane.LeaseID, epoch string, revision int64) (int64, error) {
	sent := a.cfg.BootClock()
	ttl, err := a.cfg.Store.RenewLease(ctx, lease)
	if types.Is(err, types.NotFound) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	page, err := a.cfg.Store.List(ctx, controlplane.ListOptions{Key: controlplane.AliveKey(a.cfg.Node)})
	if err != nil || len(page.KVs) == 0 || page.KVs[0].Lease != lease {
		return 0, err
	}
	var alive types.Alive
	if !controlplane.Read(page.KVs[0], &alive) {
		return 0, nil
	}
	if err := a.resumeToken(ctx, lease, page.KVs[0].CreateRevision); err != nil {
		return 0, err
	}
	a.log.Info("session resumed", zap.Int64("revision", page.KVs[0].CreateRevision))
	deadline, err := a.renewed(ctx, sent, ttl)
	if err != nil {
		return 0, err
	}
	return page.KVs[0].CreateRevision, a.state.change(true, func(s *state) {
		s.Epoch, s.Revision = epoch, max(s.Revision, revision)
		s.Deadline, s.BootID = deadline, a.cfg.BootID
	})
}

// begin begins a new session, unless another agent is alive under the node's name.
func (a *Agent) begin(ctx context.Context, epoch string, revision int64) (int64, error) {
	page, err := a.cfg.Store.List(ctx, controlplane.ListOptions{Key: controlplane.AliveKey(a.cfg.Node)})
	if err != nil {
		return 0, err
	}
	if len(page.KVs) > 0 {
		if err := a.removeUnreadable(ctx, page.KVs[0]); err != nil {
			return 0, err
		}
		return 0, a.errTwice()
	}
	kept, cordon, err := a.outlasting(ctx)
	if err != nil {
		return 0, err
	}
	if err := a.clear(ctx, kept); err != nil {
		return 0, err
	}
	sent := a.cfg.BootClock()
	lease, err := a.cfg.Store.GrantLease(ctx, a.cfg.TTL)
	if err != nil {
		return 0, err
	}
	// Store the lease before its use: after a crash in between, the agent recognizes its own
	// session.
	err = a.state.change(true, func(s *state) {
		*s = state{Lease: lease, Epoch: epoch, Revision: revision, Deadline: sent + a.cfg.TTL, BootID: a.cfg.BootID, Keep: kept}
	})
	if err != nil {
		return 0, err
	}
	session, err := a.comeAlive(ctx, lease, cordon)
	if err == nil {
		a.cfg.Metrics.sessions.Inc()
		a.log.Info("session begun", zap.Int64("revision", session))
		a.state.saw(session)
		_, err = a.renewed(ctx, sent, a.cfg.TTL)
	}
	return session, err
}

// comeAlive puts the key whose CreateRevision is the session. It fails if the cordon of the node
// has changed.
func (a *Agent) comeAlive(ctx context.Context, lease controlplane.LeaseID, cordon int64) (int64, error) {
	key := controlplane.AliveKey(a.cfg.Node)
	change := controlplane.NewChange(controlplane.NewBatch())
	change.IfCreated(key, 0)
	change.IfUnchanged(controlplane.CordonKey(a.cfg.Node), cordon)
	token := rand.Text()
	change.PutOn(key, &types.Alive{TTLSeconds: int64(a.cfg.TTL / time.Second)}, lease)
	change.PutOn(controlplane.TokenKey(a.cfg.Node), &types.Token{Token: token}, lease)
	res, err := controlplane.Commit(ctx, a.cfg.Store, change.Txn())
	switch {
	case types.Is(err, types.NotFound):
		return 0, types.Errorf(types.Unavailable, "begin session: the lease ended before it was used")
	case err != nil:
		return 0, err
	case !res.Committed:
		_ = a.cfg.Store.RevokeLease(ctx, lease) // It also expires by itself.
		return 0, a.errTwice()
	}
	a.setToken(token)
	return res.Revision, nil
}

// removeUnreadable deletes an unreadable session of the node: no agent wrote it, and possibly no
// lease will ever end it.
func (a *Agent) removeUnreadable(ctx context.Context, kv controlplane.KV) error {
	if controlplane.Read(kv, new(types.Alive)) {
		return nil
	}
	change := controlplane.NewChange(controlplane.NewBatch())
	change.IfUnchanged(kv.Key, kv.ModRevision)
	change.Delete(kv.Key)
	_, err := controlplane.Commit(ctx, a.cfg.Store, change.Txn())
	a.log.Warn("a session of the node cannot be read: it is removed", zap.String("path", kv.Key), zap.Error(err))
	return err
}

// resumeToken resumes with the token of a session. If there is no readable token, as in a session
// of an older agent, it makes one.
func (a *Agent) resumeToken(ctx context.Context, lease controlplane.LeaseID, session int64) error {
	key := controlplane.TokenKey(a.cfg.Node)
	page, err := a.cfg.Store.List(ctx, controlplane.ListOptions{Key: key})
	if err != nil {
		return err
	}
	was := int64(0)
	if len(page.KVs) > 0 {
		var t types.Token
		if controlplane.Read(page.KVs[0], &t) && t.Token != "" && page.KVs[0].Lease == lease {
			a.setToken(t.Token)
			return nil
		}
		was = page.KVs[0].ModRevision
	}
	change, token := controlplane.NewChange(controlplane.NewBatch()), rand.Text()
	change.IfCreated(controlplane.AliveKey(a.cfg.Node), session)
	change.IfUnchanged(key, was)
	change.PutOn(key, &types.Token{Token: token}, lease)
	res, err := controlplane.Commit(ctx, a.cfg.Store, change.Txn())
	if err == nil && !res.Committed {
		err = types.Errorf(types.Unavailable, "resume session: it ended, or its token changed, in that moment")
	}
	if err == nil {
		a.setToken(token)
	}
	return err
}

func (a *Agent) errTwice() error {
	return types.Errorf(types.Unavailable, "begin session: node %s is alive: another agent has the same name, or the session of the last one has not run out", a.cfg.Node)
}

// keptBindings returns the containers of the bindings that outlive sessions.
func (a *Agent) keptBindings(ctx context.Context) ([]string, error) {
	kvs, _, err := controlplane.ListAll(ctx, a.cfg.Store, controlplane.ListOptions{Prefix: controlplane.Prefix(controlplane.Bindings, a.cfg.Node)})
	if err != nil {
		return nil, err
	}
	var kept []string
	for _, kv := range kvs {
		at, b, err := a.binding(kv)
		if err != nil {
			continue // the watch of the bindings logs it
		}
		if b.OnDisconnect == types.Keep {
			kept = append(kept, ContainerID(at))
		}
	}
	return kept, nil
}

// clear removes every container except those in kept, and kills what runs in them.
func (a *Agent) clear(ctx context.Context, kept []string) error {
	list, err := a.cfg.Runtime.List(ctx)
	if err != nil {
		return err
	}
	const why = "it is not bound here in the session to begin"
	isKept := func(id string) bool { return slices.Contains(kept, id) }
	err = each(list, func(o Observed) error {
		if isKept(o.ID) {
			return nil
		}
		a.log.Info("removed", logged(o.Attempt), zap.String("reason", why))
		return a.cfg.Runtime.Remove(ctx, o.ID)
	})
	if err == nil {
		a.noteGone(ctx, why, isKept)
	}
	return err
}

// guardLast kills the processes that an earlier life of this agent left running, at the deadline of
// their session, unless stop is called before. While the store does not answer, no process ends
// sooner or runs longer. A resumed or new session moves the deadline.
func (a *Agent) guardLast(ctx context.Context) (stop func()) {
	st := a.state.get()
	if st.Lease == 0 || st.BootID != a.cfg.BootID {
		return func() {} // No process of an earlier boot runs.
	}
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for wait := a.untilKill(); wait > 0; wait = a.untilKill() {
			if supervise.Pause(ctx, min(wait, time.Second)) != nil {
				return
			}
		}
		err := a.retry(ctx, "end what outlives its session", func() error { return a.killAll(ctx, a.state.get().Keep) })
		if err != nil && ctx.Err() == nil {
			a.log.Error("what outlives its session runs on", zap.Error(err))
		}
	}()
	return func() { cancel(); <-done }
}

// untilKill returns the time until the processes of the last session must be killed.
func (a *Agent) untilKill() time.Duration {
	deadline := max(a.state.get().Deadline, a.lifetime().deadline())
	return deadline - a.cfg.TTL/killMargin - a.cfg.BootClock()
}

// killAll kills every process except those of the containers in kept. The containers stay: if the
// session can be resumed, the agent reports their ends.
func (a *Agent) killAll(ctx context.Context, kept []string) error {
	list, err := a.cfg.Runtime.List(ctx)
	if err != nil {
		return err
	}
	return each(list, func(o Observed) error {
		if !o.Running || slices.Contains(kept, o.ID) {
			return nil
		}
		a.log.Warn("killed", logged(o.Attempt),
			zap.String("reason", "the session could not be resumed in time"))
		if err := a.marks.set(o.ID, Fenced); err != nil {
			a.log.Error("the end of a process will look like its own", zap.Error(err))
		}
		err := a.cfg.Runtime.Signal(ctx, o.ID, syscall.SIGKILL)
		if types.Is(err, types.NotFound) {
			return nil
		}
		return err
	})
}
