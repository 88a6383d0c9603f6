package accounting

import (
	"context"
	"database/sql"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/identity"
	"github.com/escher-sched/escher/controlplane/replay"
	"github.com/escher-sched/escher/controlplane/supervise"
	"github.com/escher-sched/escher/types"
)

// The defaults of a Recorder.
const (
	DefaultKeep     = 30 * 24 * time.Hour
	DefaultMaxBytes = 4 << 30
)

const (
	// commitEvery bounds how long a record waits for its transaction, commitRows how many go in one.
	commitEvery = 250 * time.Millisecond
	commitRows  = 1000
	// progressEvery is how often the revision is written while no task ends.
	progressEvery = 5 * time.Second
	pruneEvery    = time.Minute
)

// Recorder records the ends of tasks and attempts of a cluster in a file, and answers questions
// about it while it runs.
type Recorder struct {
	Store controlplane.Store
	// Cluster is the id of the cluster, which names the file; empty means the one in the store.
	Cluster string
	// Dir is the directory of the file, and Server the name of the server; empty if there is only one.
	Dir, Server string
	// Keep is how long records are kept after the end, and MaxBytes the most bytes that the file holds:
	// beyond it the oldest go first. 0 means DefaultKeep and DefaultMaxBytes.
	Keep     time.Duration
	MaxBytes int64
	// Log logs gaps; nil disables logging.
	Log *zap.Logger

	recorded atomic.Int64
	file     atomic.Pointer[sql.DB]
	// questions has connections of its own: many questions do not hold up the records.
	questions atomic.Pointer[sql.DB]
	requests  requestLog

	mu sync.Mutex // guards the fields below
	// open is the transaction of the latest records; nil means none.
	open *writer
	// seen is the revision up to which everything is in the file or in open.
	seen int64
	// missed is the time from which ends may be missing, until the listing that closes the gap; 0 means
	// none is. committed is when the revision was last written.
	missed    int64
	committed time.Time
}

func (r *Recorder) dir() string { return filepath.Join(r.Dir, "history") }

// MakeDir makes the directory of the file.
func (r *Recorder) MakeDir() error { return os.MkdirAll(r.dir(), 0o700) }

// Recorded returns the revision up to which all ends are durably recorded; 0 before that is known.
func (r *Recorder) Recorded() int64 { return r.recorded.Load() }

// Run records until ctx is done, and then returns ctx.Err(). Precondition: the file cannot be used.
func (r *Recorder) Run(ctx context.Context) error {
	if r.Log == nil {
		r.Log = zap.NewNop()
	}
	cluster, err := r.cluster(ctx)
	if err != nil {
		return err
	}
	name := cluster + ".db"
	if r.Server != "" {
		name = cluster + "-" + r.Server + ".db"
	}
	if err := r.MakeDir(); err != nil {
		return types.Errorf(types.Precondition, "make the directory of the history: %w: choose another directory", err)
	}
	db, err := openFile(ctx, filepath.Join(r.dir(), name), prepare)
	if err != nil {
		return err
	}
	questions, err := openFile(ctx, filepath.Join(r.dir(), name), prepare)
	if err != nil {
		return errors.Join(err, db.Close())
	}
	defer func() {
		r.file.Store(nil)
		r.questions.Store(nil)
		r.recorded.Store(0)
		_, _ = db.Close(), questions.Close() // what is recorded is durable
	}()
	if err := r.begin(ctx, db); err != nil {
		return err
	}
	r.file.Store(db)
	r.questions.Store(questions)
	g, ctx := supervise.WithContext(ctx)
	g.Go(func() error { return r.follow(ctx) })
	g.Go(func() error { return r.keep(ctx, db) })
	g.Go(func() error { return r.logRequests(ctx, filepath.Join(r.dir(), "requests-"+name)) })
	err = g.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.open != nil {
		_ = r.open.tx.Rollback() // it is recorded again
		r.open = nil
	}
	return err
}

// cluster waits for the id of the cluster.
func (r *Recorder) cluster(ctx context.Context) (string, error) {
	if r.Cluster != "" {
		return r.Cluster, nil
	}
	for {
		id, err := identity.ClusterID(ctx, r.Store)
		if !types.Is(err, types.NotFound) {
			return id, err
		}
		if err := supervise.Pause(ctx, time.Second); err != nil {
			return "", err
		}
	}
}

// begin reads how far the file is.
func (r *Recorder) begin(ctx context.Context, db *sql.DB) error {
	epoch, err := r.epoch(ctx)
	if err != nil {
		return err
	}
	var at int64
	var was string
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := db.QueryRowContext(ctx, "SELECT revision, at, epoch FROM progress").Scan(&r.seen, &at, &was); err != nil {
		return err
	}
	r.missed, r.committed = 0, time.Unix(0, at)
	switch {
	case r.seen == 0:
		r.missed = 1 // since ever
	case was != "" && was != epoch: // revisions of another history mean nothing in this one
		r.Log.Warn("the history has a gap: the store was restored from a backup", zap.Int64("revision", r.seen))
		r.missed, r.seen = max(at, 1), 0
	default:
		r.recorded.Store(r.seen)
	}
	_, err = db.ExecContext(ctx, "UPDATE progress SET revision = ?, epoch = ?", r.seen, epoch)
	return err
}

// epoch returns the id of the history of the store; empty if it has none, as stores of tests.
func (r *Recorder) epoch(ctx context.Context) (string, error) {
	kv, err := controlplane.Get(ctx, r.Store, controlplane.EpochKey())
	var e types.Epoch
	if err == nil && kv.ModRevision != 0 {
		controlplane.Read(kv, &e) // an unreadable one counts as none
	}
	return e.ID, err
}

// follow records the ends since the last revision in the file, and then those that come.
func (r *Recorder) follow(ctx context.Context) error {
	opts := controlplane.ListWatchOptions{Prefix: controlplane.Prefix(controlplane.Statuses), Parts: true, Log: r.Log}
	listing := false
	return controlplane.ListWatch(ctx, r.Store, opts, func(u controlplane.Update) error {
		if !u.Synced {
			return r.take(ctx, u.Revision, u.Events)
		}
		if !listing {
			page, err := r.Store.List(ctx, controlplane.ListOptions{Key: controlplane.ClusterKey(), KeysOnly: true})
			if err == nil {
				err = r.catchUp(ctx, page.Revision)
			}
			if err != nil {
				return err
			}
		}
		listing = u.More
		return r.list(ctx, u)
	})
}

// list takes a part of a listing, which matters only if the changes since the last revision are gone.
func (r *Recorder) list(ctx context.Context, u controlplane.Update) error {
	if r.misses() {
		if err := r.listed(ctx, u.Events); err != nil || u.More {
			return err
		}
		return r.complete(ctx, u.Revision)
	}
	if u.More || r.reached(u.Revision) { // the changes during the listing are recorded already
		return nil
	}
	err := r.catchUp(ctx, u.Revision)
	if err == nil && r.misses() {
		return types.Errorf(types.Unavailable, "list what ended: the store forgets faster than it is read")
	}
	return err
}

// reached reports whether everything up to a revision is recorded.
func (r *Recorder) reached(revision int64) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.seen >= revision
}

// misses reports whether ends may be missing.
func (r *Recorder) misses() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.missed != 0
}

// catchUp records what ended since the last recorded revision, up to another. If the store has
// forgotten that, or was restored from a backup, it notes a gap.
func (r *Recorder) catchUp(ctx context.Context, until int64) error {
	if r.misses() {
		return nil
	}
	r.mu.Lock()
	after := r.seen
	r.mu.Unlock()
	err := replay.Changes(ctx, r.Store, controlplane.Prefix(controlplane.Statuses), after, until, func(changes []controlplane.Event) error {
		return r.take(ctx, changes[0].ModRevision, changes)
	})
	switch {
	case after > until, types.Is(err, types.Compacted):
		r.mu.Lock()
		defer r.mu.Unlock()
		r.missed = r.committed.UnixNano()
		r.Log.Warn("the history has a gap: the store has forgotten what ended", zap.Int64("revision", after))
		return nil
	case err != nil:
		return err
	}
	return r.take(ctx, until, nil)
}

// complete ends a listing: all that ended up to a revision and is still in the store is recorded.
func (r *Recorder) complete(ctx context.Context, revision int64) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	w, err := r.writer(ctx)
	if err != nil {
		return err
	}
	if _, err := w.tx.ExecContext(ctx, "INSERT INTO gaps VALUES (?, ?)", r.missed, time.Now().UnixNano()); err != nil {
		return err
	}
	r.missed, r.seen = 0, revision
	return r.commit(ctx)
}

// take records the ends of one revision, and that everything up to it is recorded.
func (r *Recorder) take(ctx context.Context, revision int64, events []controlplane.Event) error {
	if err := r.record(ctx, revision-1, endings(events)); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.missed == 0 {
		r.seen = max(r.seen, revision)
	}
	if r.open != nil && r.open.rows >= commitRows {
		return r.commit(ctx)
	}
	return nil
}

// listed records those of the listed ends that are not known.
func (r *Recorder) listed(ctx context.Context, events []controlplane.Event) error {
	db := r.file.Load()
	var err error
	news := slices.DeleteFunc(endings(events), func(x ending) bool {
		n := 0
		if err == nil {
			err = db.QueryRowContext(ctx, `SELECT (SELECT count(*) FROM tasks WHERE namespace = ?1 AND id = ?2) +
				(SELECT count(*) FROM attempts WHERE namespace = ?1 AND id = ?2 AND attempt = ?3 AND NOT ?4)`,
				x.key.Namespace, x.key.ID, x.status.Attempt, x.status.Phase.Ended()).Scan(&n)
		}
		return n > 0
	})
	if err != nil {
		return err
	}
	return r.record(ctx, 0, news)
}

// endings returns the ends that changes of statuses tell.
func endings(events []controlplane.Event) (out []ending) {
	for _, e := range events {
		if x, ok := endingOf(e); ok {
			out = append(out, x)
		}
	}
	return out
}

// record writes the records of some ends, of what the store had at a revision; 0 means the newest.
func (r *Recorder) record(ctx context.Context, revision int64, ends []ending) error {
	// A large transaction of the scheduler ends thousands.
	for part := range slices.Chunk(ends, max(1, r.Store.Limits().Ops/keysOfEnd)) {
		k, err := r.read(ctx, revision, part)
		if err != nil {
			return err
		}
		if err := r.write(ctx, part, k); err != nil {
			return err
		}
	}
	return nil
}

// keysOfEnd is how many keys are read at most for an end: its task, status and binding, the job and
// the policies.
const keysOfEnd = 5

// read reads what the records of some ends need.
func (r *Recorder) read(ctx context.Context, revision int64, ends []ending) (known, error) {
	k, jobs := make(known), make(map[string]bool)
	list := func(keys []string) error {
		if len(keys) == 0 {
			return nil
		}
		page, err := r.Store.List(ctx, controlplane.ListOptions{Keys: keys, Revision: revision})
		for _, kv := range page.KVs {
			k[kv.Key] = kv
		}
		return err
	}
	var keys []string
	for i := range ends {
		keys = append(keys, ends[i].keys()...)
	}
	err := list(keys)
	if types.Is(err, types.Compacted) && revision != 0 {
		return r.read(ctx, 0, ends) // what is left of them
	}
	if err != nil {
		return nil, err
	}
	for i := range ends {
		var t types.Task
		if k.read(ends[i].taskKey(), &t) && t.Job != "" {
			jobs[controlplane.JobKey(ends[i].key.Namespace, t.Job)] = true
			jobs[controlplane.PoliciesKey(ends[i].key.Namespace, t.Job)] = true
		}
	}
	keys = keys[:0]
	for key := range jobs {
		keys = append(keys, key)
	}
	if err = list(keys); types.Is(err, types.Compacted) && revision != 0 {
		return r.read(ctx, 0, ends)
	}
	return k, err
}

// write adds records to the open transaction.
func (r *Recorder) write(ctx context.Context, ends []ending, k known) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	w, err := r.writer(ctx)
	if err != nil {
		return err
	}
	now := time.Now().UnixNano()
	for i := range ends {
		rec := recordOf(&ends[i], k, now)
		if err := w.add(ctx, &rec); err != nil {
			return err
		}
	}
	return nil
}

// writer returns the open transaction, or begins one. The caller holds mu.
func (r *Recorder) writer(ctx context.Context) (*writer, error) {
	if r.open == nil {
		tx, err := begin(ctx, r.file.Load())
		if err != nil {
			return nil, err
		}
		r.open = newWriter(tx)
	}
	return r.open, nil
}

// commit writes the revision, and makes the open transaction durable. The caller holds mu.
func (r *Recorder) commit(ctx context.Context) error {
	w, err := r.writer(ctx)
	if err != nil {
		return err
	}
	now := time.Now()
	if r.missed == 0 {
		if _, err := w.tx.ExecContext(ctx, "UPDATE progress SET revision = ?, at = ?", r.seen, now.UnixNano()); err != nil {
			return err
		}
	}
	r.open = nil
	if err := w.tx.Commit(); err != nil {
		return err
	}
	if r.missed == 0 {
		r.recorded.Store(r.seen)
		r.committed = now
	}
	return nil
}

// keep commits records and deletes old ones.
func (r *Recorder) keep(ctx context.Context, db *sql.DB) error {
	ticker := time.NewTicker(commitEvery)
	defer ticker.Stop()
	var pruned time.Time
	for {
		if err := r.tick(ctx); err != nil {
			return err
		}
		if now := time.Now(); now.Sub(pruned) >= pruneEvery {
			pruned = now
			if err := r.prune(ctx, db, now); err != nil {
				return err
			}
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ticker.C:
		}
	}
}

// tick commits what is due.
func (r *Recorder) tick(ctx context.Context) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.open == nil && (r.seen == r.recorded.Load() || time.Since(r.committed) < progressEvery) {
		return nil
	}
	return r.commit(ctx)
}

// prune deletes what is too old, or too much.
func (r *Recorder) prune(ctx context.Context, db *sql.DB, now time.Time) error {
	keep, most := r.Keep, r.MaxBytes
	if keep == 0 {
		keep = DefaultKeep
	}
	if most == 0 {
		most = DefaultMaxBytes
	}
	for more := true; more && ctx.Err() == nil; {
		var err error
		if more, err = r.pruneSome(ctx, db, now.Add(-keep).UnixNano(), most); err != nil {
			return err
		}
	}
	return nil
}

// pruneSome deletes some records, while no other transaction is open.
func (r *Recorder) pruneSome(ctx context.Context, db *sql.DB, before, most int64) (more bool, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.open != nil {
		if err := r.commit(ctx); err != nil {
			return false, err
		}
	}
	return prune(ctx, db, before, most)
}
