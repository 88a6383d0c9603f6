package accounting

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/escher-sched/escher/controlplane/supervise"
	"github.com/escher-sched/escher/types"
)

// Request is a request to a server that changed something, or was refused.
type Request struct {
	// ID orders the requests of a server.
	ID int64
	// At is its time, in Unix nanoseconds.
	At int64
	// Subject is the sender, as user:alice or service:ci, and Token the id of its token; empty means
	// unknown.
	Subject, Token string
	// Operation is that of the API.
	Operation string
	// Namespace is empty for the cluster. Object is the first key that it changed, else what it names, and
	// More how many further keys it changed.
	Namespace, Object string
	More              int
	// Revision is that of its last change; 0 means that it changed no key.
	Revision int64
	// Refused says why it was refused; empty means that it was not.
	Refused string
}

const (
	// maxRequests bounds the requests in the file, and maxWaiting those that wait to be written. At most
	// flushEvery passes before they are.
	maxRequests = 1_000_000
	maxWaiting  = 50_000
	flushEvery  = 100 * time.Millisecond
)

// requestTables makes the table of requests.
const requestTables = `
CREATE TABLE requests (id INTEGER PRIMARY KEY AUTOINCREMENT, at INTEGER NOT NULL, subject TEXT NOT NULL, token TEXT NOT NULL,
	operation TEXT NOT NULL, namespace TEXT NOT NULL, object TEXT NOT NULL, more INTEGER NOT NULL, revision INTEGER NOT NULL,
	refused TEXT NOT NULL) STRICT;
CREATE INDEX requests_at ON requests (at);
CREATE INDEX requests_subject ON requests (subject, id);
CREATE INDEX requests_namespace ON requests (namespace, id);
PRAGMA user_version = 1;`

// requestLog is the log of requests.
type requestLog struct {
	file atomic.Pointer[sql.DB]
	// writing is held while requests are written, so that they are in order.
	writing sync.Mutex

	mu sync.Mutex // guards the fields below
	// noted are the requests to write, and lost counts those for which there was no room.
	noted []Request
	lost  int
}

// Note records a request within moments. If too many wait to be written, it is counted and lost.
func (r *Recorder) Note(q Request) {
	if r == nil {
		return
	}
	l := &r.requests
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.noted) >= maxWaiting {
		l.lost++
		return
	}
	q.Object, q.Refused = types.Cut(q.Object, types.MaxText), types.Cut(q.Refused, types.MaxText)
	l.noted = append(l.noted, q)
}

// requestTable makes the table of requests, if there is none.
func requestTable(ctx context.Context, db *sql.DB) error {
	var version int
	err := db.QueryRowContext(ctx, "PRAGMA user_version").Scan(&version)
	switch {
	case err != nil || version == 1:
		return err
	case version != 0:
		return errors.New("its tables are of version " + strconv.Itoa(version) + ", and this program knows 1")
	}
	return execute(ctx, db, requestTables)
}

// logRequests writes the requests that wait to a file, until ctx is done, and then those that are left.
func (r *Recorder) logRequests(ctx context.Context, path string) error {
	db, err := openFile(ctx, path, requestTable)
	if err != nil {
		return err
	}
	r.requests.file.Store(db)
	defer func() {
		r.requests.file.Store(nil)
		_ = r.flush(context.WithoutCancel(ctx), db) // after an error, the next run writes them
		_ = db.Close()                              // what is written is durable
	}()
	for pruned := time.Now(); ; {
		if err := supervise.Pause(ctx, flushEvery); err != nil {
			return err
		}
		if err := r.flush(ctx, db); err != nil {
			return err
		}
		if time.Since(pruned) < pruneEvery {
			continue
		}
		pruned = time.Now()
		if err := r.pruneRequests(ctx, db, pruned, maxRequests); err != nil {
			return err
		}
	}
}

// flush writes the requests that wait. After an error, they wait again.
func (r *Recorder) flush(ctx context.Context, db *sql.DB) error {
	l := &r.requests
	l.writing.Lock()
	defer l.writing.Unlock()
	l.mu.Lock()
	all, lost := l.noted, l.lost
	l.noted, l.lost = nil, 0
	l.mu.Unlock()
	if lost > 0 {
		r.Log.Warn("requests were not recorded: too many wait to be written", zap.Int("count", lost))
	}
	if len(all) == 0 {
		return nil
	}
	err := within(ctx, db, func(tx *sql.Tx) error {
		w := newWriter(tx)
		for _, q := range all {
			err := w.exec(ctx, "INSERT INTO requests (at, subject, token, operation, namespace, object, more, revision, refused) VALUES (?,?,?,?,?,?,?,?,?)",
				q.At, q.Subject, q.Token, q.Operation, q.Namespace, q.Object, q.More, q.Revision, q.Refused)
			if err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		l.mu.Lock()
		l.noted = append(all, l.noted...)
		l.mu.Unlock()
	}
	return err
}

// pruneRequests deletes the requests that are too old, or too many.
func (r *Recorder) pruneRequests(ctx context.Context, db *sql.DB, now time.Time, most int) error {
	_, err := db.ExecContext(ctx, "DELETE FROM requests WHERE at < ? OR id <= (SELECT coalesce(max(id), 0) FROM requests) - ?", now.Add(-cmp.Or(r.Keep, DefaultKeep)).UnixNano(), most)
	return err
}

// RequestFilter selects requests. Its zero value selects all.
type RequestFilter struct {
	// Namespace selects by an equal value, and User by a subject or the name in it; empty selects all.
	Namespace, User string
	// Since and Until select what came after Since and not after Until, in Unix nanoseconds; an Until of 0
	// means no bound.
	Since, Until int64
	// Refused selects those that were refused.
	Refused bool
}

// Requests lists requests, the latest first: at most limit, and only those with a smaller id than
// before, unless that is 0. Unavailable: the file is not open.
func (r *Recorder) Requests(ctx context.Context, f RequestFilter, limit int, before int64) (all []Request, err error) {
	var db *sql.DB
	if r != nil {
		db = r.requests.file.Load()
	}
	if db == nil {
		return nil, types.Errorf(types.Unavailable, "read the log of requests: this server keeps none, or opens it: look at its configuration and its log")
	}
	if err := r.flush(ctx, db); err != nil { // what was answered before is listed
		return nil, types.Errorf(types.Internal, "write the log of requests: %w", err)
	}
	rows, err := db.QueryContext(ctx, `SELECT id, at, subject, token, operation, namespace, object, more, revision, refused FROM requests
		WHERE (?1 = '' OR namespace = ?1) AND (?2 = '' OR subject IN (?2, 'user:' || ?2, 'service:' || ?2)) AND at > ?3 AND (?4 = 0 OR at <= ?4)
		AND (?5 = 0 OR refused != '') AND (?6 = 0 OR id < ?6) ORDER BY id DESC LIMIT ?7`, f.Namespace, f.User, f.Since, f.Until, f.Refused, before, limit)
	if err != nil {
		return nil, types.Errorf(types.Internal, "read the log of requests: %w", err)
	}
	defer rows.Close()
	for rows.Next() {
		var q Request
		if err := rows.Scan(&q.ID, &q.At, &q.Subject, &q.Token, &q.Operation, &q.Namespace, &q.Object, &q.More, &q.Revision, &q.Refused); err != nil {
			return nil, types.Errorf(types.Internal, "read the log of requests: %w", err)
		}
		all = append(all, q)
	}
	return all, rows.Err()
}
