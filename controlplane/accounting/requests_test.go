package accounting

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"

	"github.com/escher-sched/escher/types"
)

// logging runs the log of requests with a file, in virtual time, until stop is called.
func logging(t *testing.T, path string) (r *Recorder, stop func()) {
	t.Helper()
	r = &Recorder{Keep: time.Hour, Log: zap.NewNop()}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- r.logRequests(ctx, path) }()
	return r, func() {
		cancel()
		if err := <-ended; err != context.Canceled {
			t.Error(err)
		}
	}
}

// listed returns the operations of selected requests.
func listed(t *testing.T, r *Recorder, f RequestFilter, limit int, before int64) string {
	t.Helper()
	all, err := r.Requests(t.Context(), f, limit, before)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, q := range all {
		out = append(out, q.Operation)
	}
	return strings.Join(out, " ")
}

// TestRequests lists what was noted, by each filter, also after a restart.
func TestRequests(t *testing.T) {
	path := filepath.Join(t.TempDir(), "requests.db")
	synctest.Test(t, func(t *testing.T) {
		r, stop := logging(t, path)
		begin := time.Now()
		want := Request{ID: 1, At: begin.UnixNano(), Subject: "user:alice", Token: "t", Operation: "a", Namespace: "lab", Object: "tasks/lab/x", More: 2, Revision: 7}
		r.Note(want)
		r.Note(Request{At: begin.UnixNano(), Subject: "service:ci", Operation: "b", Namespace: "web", Refused: strings.Repeat("no ", 1000)})
		time.Sleep(time.Second)
		r.Note(Request{At: time.Now().UnixNano(), Subject: "user:ci", Operation: "c", Namespace: "lab"})
		stop() // writes what is left
		if _, err := r.Requests(t.Context(), RequestFilter{}, 10, 0); !types.Is(err, types.Unavailable) {
			t.Errorf("it is closed: %v", err)
		}
		r, stop = logging(t, path)
		time.Sleep(time.Second)
		for _, c := range []struct {
			f      RequestFilter
			limit  int
			before int64
			want   string
		}{
			{RequestFilter{}, 10, 0, "c b a"}, {RequestFilter{}, 2, 0, "c b"}, {RequestFilter{}, 2, 2, "a"},
			{RequestFilter{User: "ci"}, 10, 0, "c b"}, {RequestFilter{User: "user:ci"}, 10, 0, "c"}, {RequestFilter{Namespace: "lab"}, 10, 0, "c a"},
			{RequestFilter{Refused: true}, 10, 0, "b"}, {RequestFilter{Since: begin.UnixNano()}, 10, 0, "c"}, {RequestFilter{Until: begin.UnixNano()}, 10, 0, "b a"},
		} {
			if got := listed(t, r, c.f, c.limit, c.before); got != c.want {
				t.Errorf("%+v: %s, want %s", c, got, c.want)
			}
		}
		all, err := r.Requests(t.Context(), RequestFilter{}, 10, 0)
		if err != nil || all[2] != want || len(all[1].Refused) > types.MaxText {
			t.Errorf("%+v, %v", all, err)
		}
		stop()
	})
}

// TestRequestsAtOnce lists what was noted just before.
func TestRequestsAtOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "requests.db")
	synctest.Test(t, func(t *testing.T) {
		r, stop := logging(t, path)
		synctest.Wait()
		for _, operation := range []string{"a", "b"} {
			r.Note(Request{At: time.Now().UnixNano(), Subject: "user:alice", Operation: operation})
			if got := listed(t, r, RequestFilter{}, 1, 0); got != operation {
				t.Errorf("at once: %q, want %q", got, operation)
			}
		}
		stop()
	})
}

// TestRequestsAreBounded forgets requests by their age and their number, and what cannot wait.
func TestRequestsAreBounded(t *testing.T) {
	path := filepath.Join(t.TempDir(), "requests.db")
	synctest.Test(t, func(t *testing.T) {
		r, stop := logging(t, path)
		for i := range 5 {
			r.Note(Request{At: time.Now().UnixNano(), Operation: fmt.Sprint(i)})
		}
		time.Sleep(30 * time.Minute)
		r.Note(Request{At: time.Now().UnixNano(), Operation: "late"})
		time.Sleep(time.Second)
		if err := r.pruneRequests(t.Context(), r.requests.file.Load(), time.Now(), 3); err != nil {
			t.Fatal(err)
		}
		if got := listed(t, r, RequestFilter{}, 10, 0); got != "late 4 3" {
			t.Errorf("too many: %s", got)
		}
		time.Sleep(45 * time.Minute)
		if got := listed(t, r, RequestFilter{}, 10, 0); got != "late" {
			t.Errorf("too old: %s", got)
		}
		stop()
		for range maxWaiting + 5 {
			r.Note(Request{})
		}
		if len(r.requests.noted) != maxWaiting || r.requests.lost != 5 {
			t.Errorf("%d wait, and %d are lost", len(r.requests.noted), r.requests.lost)
		}
	})
	(*Recorder)(nil).Note(Request{})
}

// TestOtherRequestFile refuses the file of a later version.
func TestOtherRequestFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "requests.db")
	db, err := openFile(t.Context(), path, func(ctx context.Context, db *sql.DB) error { return execute(ctx, db, "PRAGMA user_version = 9") })
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if err := (&Recorder{Log: zap.NewNop()}).logRequests(t.Context(), path); !types.Is(err, types.Precondition) || !strings.Contains(err.Error(), "of version 9") {
		t.Error(err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Error(info, err)
	}
}
