package accounting

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"net/url"
	"os"
	"strconv"

	_ "modernc.org/sqlite" // the driver, in Go

	"github.com/escher-sched/escher/types"
)

// schemaVersion is the version of the tables, as SQLite's user_version.
const schemaVersion = 2

// schema makes the tables. Times are in Unix nanoseconds. An owner is a namespace, user and labels. sums
// adds up what ended in each hour, by owner: triggers keep it, so that a row counts exactly while it is
// there.
const schema = `
CREATE TABLE owners (id INTEGER PRIMARY KEY, namespace TEXT NOT NULL, user TEXT NOT NULL, labels TEXT NOT NULL,
	UNIQUE (namespace, user, labels)) STRICT;
CREATE TABLE tasks (namespace TEXT NOT NULL, id TEXT NOT NULL, owner INTEGER NOT NULL, name TEXT NOT NULL, job TEXT NOT NULL,
	job_name TEXT NOT NULL, phase TEXT NOT NULL, exit_code INTEGER NOT NULL, cause TEXT NOT NULL, reason TEXT NOT NULL,
	node TEXT NOT NULL, attempts INTEGER NOT NULL, submitted INTEGER NOT NULL, bound INTEGER NOT NULL, started INTEGER NOT NULL,
	ended INTEGER NOT NULL, waited INTEGER NOT NULL, cpu INTEGER NOT NULL, memory INTEGER NOT NULL, gpu INTEGER NOT NULL,
	used_cpu INTEGER NOT NULL, used_memory INTEGER NOT NULL, estimated INTEGER NOT NULL, revision INTEGER NOT NULL,
	UNIQUE (namespace, id)) STRICT;
CREATE INDEX tasks_ended ON tasks (ended);
CREATE INDEX tasks_job ON tasks (job, ended);
CREATE INDEX tasks_job_name ON tasks (job_name, ended);
CREATE INDEX tasks_phase ON tasks (phase, ended);
CREATE INDEX tasks_owner ON tasks (owner, ended);
CREATE TABLE attempts (namespace TEXT NOT NULL, id TEXT NOT NULL, attempt INTEGER NOT NULL, owner INTEGER NOT NULL, node TEXT NOT NULL,
	bound INTEGER NOT NULL, started INTEGER NOT NULL, ended INTEGER NOT NULL, cpu INTEGER NOT NULL, memory INTEGER NOT NULL,
	gpu INTEGER NOT NULL, used_cpu INTEGER NOT NULL, used_memory INTEGER NOT NULL,
	cpu_seconds REAL NOT NULL, memory_seconds REAL NOT NULL, gpu_seconds REAL NOT NULL, used_seconds REAL NOT NULL,
	UNIQUE (namespace, id, attempt)) STRICT;
CREATE INDEX attempts_ended ON attempts (ended);
CREATE TABLE sums (owner INTEGER NOT NULL, hour INTEGER NOT NULL, tasks INTEGER NOT NULL, failed INTEGER NOT NULL, attempts INTEGER NOT NULL,
	waited_seconds REAL NOT NULL, cpu_seconds REAL NOT NULL, memory_seconds REAL NOT NULL, gpu_seconds REAL NOT NULL, used_seconds REAL NOT NULL,
	PRIMARY KEY (owner, hour)) STRICT, WITHOUT ROWID;
CREATE TRIGGER task_comes AFTER INSERT ON tasks BEGIN
	INSERT INTO sums VALUES (new.owner, new.ended / 3600000000000, 1, new.phase = 'failed', 0, new.waited / 1e9, 0, 0, 0, 0)
	ON CONFLICT DO UPDATE SET tasks = tasks + 1, failed = failed + excluded.failed, waited_seconds = waited_seconds + excluded.waited_seconds; END;
CREATE TRIGGER task_goes AFTER DELETE ON tasks BEGIN
	UPDATE sums SET tasks = tasks - 1, failed = failed - (old.phase = 'failed'), waited_seconds = waited_seconds - old.waited / 1e9
	WHERE owner = old.owner AND hour = old.ended / 3600000000000; END;
CREATE TRIGGER attempt_comes AFTER INSERT ON attempts BEGIN
	INSERT INTO sums VALUES (new.owner, new.ended / 3600000000000, 0, 0, 1, 0, new.cpu_seconds, new.memory_seconds, new.gpu_seconds, new.used_seconds)
	ON CONFLICT DO UPDATE SET attempts = attempts + 1, cpu_seconds = cpu_seconds + excluded.cpu_seconds, memory_seconds = memory_seconds + excluded.memory_seconds,
		gpu_seconds = gpu_seconds + excluded.gpu_seconds, used_seconds = used_seconds + excluded.used_seconds; END;
CREATE TRIGGER attempt_goes AFTER DELETE ON attempts BEGIN
	UPDATE sums SET attempts = attempts - 1, cpu_seconds = cpu_seconds - old.cpu_seconds, memory_seconds = memory_seconds - old.memory_seconds,
		gpu_seconds = gpu_seconds - old.gpu_seconds, used_seconds = used_seconds - old.used_seconds
	WHERE owner = old.owner AND hour = old.ended / 3600000000000; END;
CREATE TABLE gaps (begins INTEGER NOT NULL, ends INTEGER NOT NULL) STRICT;
CREATE TABLE progress (revision INTEGER NOT NULL, at INTEGER NOT NULL, epoch TEXT NOT NULL) STRICT;
INSERT INTO progress VALUES (0, 0, '');
PRAGMA user_version = 2;`

// fromVersion1 brings tables of version 1 up to date: those had no epoch.
const fromVersion1 = `ALTER TABLE progress ADD COLUMN epoch TEXT NOT NULL DEFAULT '';
PRAGMA user_version = 2;`

// preparer makes the tables of a new file, or brings them up to date.
type preparer func(ctx context.Context, db *sql.DB) error

// openFile opens the file of a history, and makes it if there is none. Precondition: it cannot, or a
// later version has written it.
func openFile(ctx context.Context, path string, prepare preparer) (*sql.DB, error) {
	db, err := open(ctx, path, prepare)
	if err != nil {
		return nil, types.Errorf(types.Precondition, "open the history %s: %w: repair or remove the file, or choose another directory", path, err)
	}
	return db, nil
}

func open(ctx context.Context, path string, prepare preparer) (*sql.DB, error) {
	// Full: what is said to be recorded outlives a failure of the machine. Recursive triggers: those of a
	// row that is replaced run, too.
	options := url.Values{"_txlock": {"immediate"}, "_pragma": {"busy_timeout(10000)", "journal_mode(WAL)", "synchronous(FULL)", "recursive_triggers(1)"}}
	db, err := sql.Open("sqlite", "file:"+(&url.URL{Path: path}).EscapedPath()+"?"+options.Encode())
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(4)
	if err := errors.Join(prepare(ctx, db), os.Chmod(path, 0o600)); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return db, nil
}

// prepare makes the tables of a new file.
func prepare(ctx context.Context, db *sql.DB) error {
	var version int
	if err := db.QueryRowContext(ctx, "PRAGMA user_version").Scan(&version); err != nil {
		return err
	}
	switch version {
	case schemaVersion:
		return nil
	case 0:
		return execute(ctx, db, schema)
	case 1:
		return execute(ctx, db, fromVersion1)
	}
	return errors.New("its tables are of version " + strconv.Itoa(version) + ", and this program knows " + strconv.Itoa(schemaVersion))
}

// execute runs statements in a transaction.
func execute(ctx context.Context, db *sql.DB, statements string) error {
	return within(ctx, db, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, statements)
		return err
	})
}

// begin begins a transaction. The end of ctx does not end it, which would happen at any time after.
func begin(ctx context.Context, db *sql.DB) (*sql.Tx, error) {
	return db.BeginTx(context.WithoutCancel(ctx), nil)
}

// within runs f in a transaction.
func within(ctx context.Context, db *sql.DB, f func(*sql.Tx) error) error {
	tx, err := begin(ctx, db)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // nothing after a commit
	if err := f(tx); err != nil {
		return err
	}
	return tx.Commit()
}

// writer writes records in a transaction.
type writer struct {
	tx *sql.Tx
	// owners holds the ids of owners that the transaction has used.
	owners map[[3]string]int64
	// prepared holds the statements, which end with the transaction.
	prepared map[string]*sql.Stmt
	rows     int
}

func newWriter(tx *sql.Tx) *writer {
	return &writer{tx: tx, owners: make(map[[3]string]int64), prepared: make(map[string]*sql.Stmt)}
}

// exec runs a statement, which it prepares once.
func (w *writer) exec(ctx context.Context, query string, args ...any) error {
	stmt := w.prepared[query]
	if stmt == nil {
		var err error
		if stmt, err = w.tx.PrepareContext(ctx, query); err != nil {
			return err
		}
		w.prepared[query] = stmt
	}
	_, err := stmt.ExecContext(ctx, args...)
	return err
}

// add writes a record. One that is exact replaces an earlier one of the same end; another does not.
func (w *writer) add(ctx context.Context, r *record) error {
	t := &r.task
	owner, err := w.owner(ctx, t)
	if err != nil {
		return err
	}
	w.rows++
	verb := "INSERT OR IGNORE"
	if r.exact {
		verb = "INSERT OR REPLACE"
	}
	if a := r.attempt; a != nil {
		s := a.spent()
		err := w.exec(ctx, verb+" INTO attempts VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)", t.Namespace, t.ID, a.number, owner, a.node,
			a.bound, a.started, a.ended, a.CPU, a.Memory, a.GPU, a.used.CPU, a.used.Memory, s.CPUSeconds, s.MemoryByteSeconds, s.GPUSeconds, s.CPUUsedSeconds)
		if err != nil {
			return err
		}
	}
	if !t.Phase.Ended() {
		return nil
	}
	const held = "(SELECT coalesce(sum(ended - bound), 0) FROM attempts WHERE namespace = ?1 AND id = ?2)"
	return w.exec(ctx, verb+" INTO tasks VALUES (?1,?2,?3,?4,?5,?6,?7,?8,?9,?10,?11,?12,?13,?14,?15,?16,iif(?13 = 0, 0, max(0, ?16 - ?13 - "+held+")),?17,?18,?19,?20,?21,?22,?23)",
		t.Namespace, t.ID, owner, t.Name, t.Job, t.JobName, string(t.Phase), t.ExitCode, string(t.Cause), t.Reason, t.Node, t.Attempts,
		t.Submitted, t.Bound, t.Started, t.Ended, t.CPU, t.Memory, t.GPU, t.Used.CPU, t.Used.Memory, !r.exact, t.Revision)
}

// owner returns the id of the owner of a task.
func (w *writer) owner(ctx context.Context, t *Task) (id int64, err error) {
	text, err := json.Marshal(types.LabelMap(t.Labels))
	if err != nil {
		return 0, err
	}
	key := [3]string{t.Namespace, t.User, string(text)}
	if id, ok := w.owners[key]; ok {
		return id, nil
	}
	if _, err = w.tx.ExecContext(ctx, "INSERT OR IGNORE INTO owners (namespace, user, labels) VALUES (?,?,?)", key[0], key[1], key[2]); err != nil {
		return 0, err
	}
	err = w.tx.QueryRowContext(ctx, "SELECT id FROM owners WHERE namespace = ? AND user = ? AND labels = ?", key[0], key[1], key[2]).Scan(&id)
	w.owners[key] = id
	return id, err
}

// pruneRows is how many records of a table go in one transaction: others wait for it.
const pruneRows = 2000

// prune deletes some of the records that ended before a time, and of the oldest while the file holds
// more than some bytes. more reports whether others are left to delete.
func prune(ctx context.Context, db *sql.DB, before, maxBytes int64) (more bool, err error) {
	var bytes int64
	err = db.QueryRowContext(ctx, "SELECT (page_count - freelist_count) * page_size FROM pragma_page_count, pragma_freelist_count, pragma_page_size").Scan(&bytes)
	if err != nil {
		return false, err
	}
	err = within(ctx, db, func(tx *sql.Tx) error {
		if bytes > maxBytes {
			oldest := "SELECT max(coalesce(max(ended) + 1, 0), ?) FROM (SELECT ended FROM (SELECT ended FROM tasks UNION ALL SELECT ended FROM attempts) ORDER BY ended LIMIT ?)"
			if err := tx.QueryRowContext(ctx, oldest, before, pruneRows).Scan(&before); err != nil {
				return err
			}
			if _, err := tx.ExecContext(ctx, "INSERT INTO gaps VALUES (0, ?)", before); err != nil {
				return err
			}
		}
		deleted := int64(0)
		for _, table := range [...]string{"tasks", "attempts"} {
			res, err := tx.ExecContext(ctx, "DELETE FROM "+table+" WHERE rowid IN (SELECT rowid FROM "+table+" WHERE ended < ? ORDER BY ended LIMIT ?)", before, pruneRows)
			if err != nil {
				return err
			}
			n, err := res.RowsAffected()
			if err != nil {
				return err
			}
			deleted += n
			more = more || n == pruneRows || n > 0 && bytes > maxBytes
		}
		if _, err := tx.ExecContext(ctx, "DELETE FROM gaps WHERE ends < ?", before); err != nil {
			return err
		}
		if more || deleted == 0 {
			return nil
		}
		if _, err := tx.ExecContext(ctx, "DELETE FROM sums WHERE tasks = 0 AND attempts = 0"); err != nil {
			return err
		}
		_, err := tx.ExecContext(ctx, "DELETE FROM owners WHERE NOT EXISTS (SELECT 1 FROM sums WHERE owner = owners.id)")
		return err
	})
	return more, err
}
