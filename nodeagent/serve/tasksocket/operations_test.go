package tasksocket

import (
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/memstore"
	"github.com/escher-sched/escher/types"
)

// socket returns a socket of a task with an API, which does not run.
func socket(t *testing.T, api http.HandlerFunc) *Server {
	t.Helper()
	c, err := controlplane.New(memstore.New(), "d")
	if err != nil {
		t.Fatal(err)
	}
	s, err := Listen(Config{Dir: filepath.Join(t.TempDir(), "s"), Client: c, API: api, Self: Self{Namespace: "d", Task: "me", Node: "n1"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.listener.Close() })
	return s
}

// TestBodyIsBounded counts the memory of a body while the API uses it, also of one of unknown length, and gives
// the API the text.
func TestBodyIsBounded(t *testing.T) {
	var s *Server
	served := 0
	s = socket(t, func(_ http.ResponseWriter, r *http.Request) {
		served++
		if text, err := io.ReadAll(r.Body); err != nil || string(text) != `{"a":[1]}` || r.ContentLength != int64(len(text)) {
			t.Errorf("%q of %d bytes, %v", text, r.ContentLength, err)
		}
		if s.share.text.large.TryAcquire(1) {
			t.Error("a body of unknown length takes no memory")
		}
		if s.share.decoded.small.TryAcquire(agentSmall / 4) {
			t.Error("what is decoded takes no memory")
		}
	})
	r := httptest.NewRequest(http.MethodPost, "/v1/x", io.MultiReader(strings.NewReader(`{"a":[1]}`)))
	r.ContentLength = -1
	s.operation(httptest.NewRecorder(), r)
	free := s.share.text.large.TryAcquire(namespaceText) && s.share.decoded.small.TryAcquire(agentSmall/4) && s.cfg.Bounds.all.text.large.TryAcquire(agentText)
	if served != 1 || !free {
		t.Errorf("served %d times, and the memory is free: %t", served, free)
	}
}

// TestBodyIsReleased refuses a body for whose decoding there is no memory, and releases that of its text.
func TestBodyIsReleased(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := socket(t, func(http.ResponseWriter, *http.Request) { t.Error("it is served") })
		if !s.share.decoded.small.TryAcquire(agentSmall / 4) {
			t.Fatal("it is in use")
		}
		w := httptest.NewRecorder()
		s.operation(w, httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/v1/x", strings.NewReader(`{}`)))
		if w.Code != http.StatusServiceUnavailable || !s.share.text.small.TryAcquire(agentSmall/4) {
			t.Errorf("%d: %s", w.Code, w.Body)
		}
	})
}

// deadlines is an answer that records its deadlines.
type deadlines struct {
	*httptest.ResponseRecorder
	read, write []time.Time
}

func (d *deadlines) SetReadDeadline(at time.Time) error {
	d.read = append(d.read, at)
	return nil
}

func (d *deadlines) SetWriteDeadline(at time.Time) error {
	d.write = append(d.write, at)
	return nil
}

// TestDeadlines limits the time for a body, and the time to take an answer, also one that refuses. What the API
// does with the deadline for the body counts no more.
func TestDeadlines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := socket(t, func(w http.ResponseWriter, _ *http.Request) {
			_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(time.Hour))
			time.Sleep(time.Minute)
			_, _ = w.Write([]byte("done"))
		})
		d := &deadlines{ResponseRecorder: httptest.NewRecorder()}
		began := time.Now()
		s.http.Handler.ServeHTTP(d, httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/v1/x", strings.NewReader(`{}`)))
		if last := d.read[len(d.read)-1]; len(d.read) < 2 || !d.read[0].Equal(began.Add(bodyTimeout)) || !last.IsZero() {
			t.Errorf("to read: %v", d.read)
		}
		if len(d.write) != 2 || !d.write[0].IsZero() || !d.write[1].Equal(began.Add(time.Minute+answerTimeout)) {
			t.Errorf("to write: %v", d.write)
		}
		d = &deadlines{ResponseRecorder: httptest.NewRecorder()}
		s.http.Handler.ServeHTTP(d, httptest.NewRequestWithContext(t.Context(), http.MethodDelete, "/v1/x", strings.NewReader(`{}`)))
		if d.Code != http.StatusBadRequest || len(d.write) != 2 || d.write[1].IsZero() {
			t.Errorf("%d: to write: %v", d.Code, d.write)
		}
	})
}

// TestUseOfBounds acquires what requests use, and releases it.
func TestUseOfBounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := socket(t, nil)
		for what, most := range map[Bound]int{Listing: namespaceListings, Watching: maxWatches} {
			var all []func()
			for range most {
				release, err := s.use(t.Context(), what)
				if err != nil {
					t.Fatal(err)
				}
				all = append(all, release)
			}
			if _, err := s.use(t.Context(), what); !types.Is(err, types.Unavailable) {
				t.Errorf("%d: %v", what, err)
			}
			for _, release := range all {
				release()
			}
			release, err := s.use(t.Context(), what)
			if err != nil {
				t.Errorf("%d: they are not released: %v", what, err)
			}
			release()
		}
		if n := s.share.watches.Load(); n != 0 {
			t.Errorf("%d watches are counted", n)
		}
	})
}
