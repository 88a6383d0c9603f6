package answer_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/escher-sched/escher/nodeagent/serve/answer"
	"github.com/escher-sched/escher/types"
)

// TestRefused tests that an error arrives as sent, with its class.
func TestRefused(t *testing.T) {
	for _, class := range types.Classes() {
		w := httptest.NewRecorder()
		answer.Refuse(w, types.Errorf(class, "read %s", class))
		err := answer.Refused("node n1", w.Code, w.Body.Bytes())
		if !types.Is(err, class) || err.Error() != "read "+class.String() {
			t.Errorf("%s arrives as %v, of class %s", class, err, types.ClassOf(err))
		}
	}
	w := httptest.NewRecorder()
	answer.Refuse(w, types.Errorf(types.Invalid, "priority: %s is too large", strings.Repeat("9", 3_000_000)))
	if n := w.Body.Len(); n > types.MaxAnswer+100 {
		t.Errorf("the text of an error takes %d bytes", n)
	}
	if err := answer.Refused("node n1", 502, []byte("bad gateway")); !types.Is(err, types.Internal) || err.Error() != "node n1 answers 502: bad gateway" {
		t.Error(err)
	}
}

// TestFail tests that internal errors are logged while the request lasts.
func TestFail(t *testing.T) {
	over, cancel := context.WithCancel(t.Context())
	cancel()
	for _, test := range []struct {
		ctx    context.Context
		err    error
		logged int
	}{
		{t.Context(), errors.New("broken"), 1},
		{t.Context(), types.Errorf(types.Invalid, "name: is missing"), 0},
		{over, errors.New("broken"), 0},
	} {
		core, logs := observer.New(zap.ErrorLevel)
		w, r := httptest.NewRecorder(), httptest.NewRequestWithContext(test.ctx, "GET", "/v1/whoami", nil)
		answer.Fail(w, r, zap.New(core), test.err)
		if w.Code != answer.Status(types.ClassOf(test.err)) || logs.Len() != test.logged {
			t.Errorf("%v: status %d, logged %d times", test.err, w.Code, logs.Len())
		}
	}
}

func TestMissing(t *testing.T) {
	w := httptest.NewRecorder()
	answer.Missing("docs/node-api.md")(w, httptest.NewRequest("GET", "/v2/logs", nil))
	if err := answer.Error(w.Body.Bytes()); w.Code != 404 || err == nil || err.Error() != "GET /v2/logs: there is no such request: see docs/node-api.md" {
		t.Errorf("status %d: %v", w.Code, err)
	}
}

func TestFlag(t *testing.T) {
	for query, want := range map[string]bool{"": false, "?follow=true": true, "?follow=1": true, "?follow=false": false} {
		if got, err := answer.Flag(httptest.NewRequest("GET", "/"+query, nil), "follow"); err != nil || got != want {
			t.Errorf("%q: %t, %v", query, got, err)
		}
	}
	if _, err := answer.Flag(httptest.NewRequest("GET", "/?follow=maybe", nil), "follow"); !types.Is(err, types.Invalid) {
		t.Errorf("follow=maybe: %v", err)
	}
}

// TestServe tests that requests are answered until the context is done, and then end.
func TestServe(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- answer.Serve(ctx, l, &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			cancel()
			<-r.Context().Done()
			answer.JSON(w, http.StatusOK, "last")
		})})
	}()
	res, err := http.Get("http://" + l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	if err := <-ended; res.StatusCode != http.StatusOK || err != context.Canceled {
		t.Errorf("status %d, then %v", res.StatusCode, err)
	}
	if err := answer.Serve(t.Context(), l, &http.Server{}); err == nil || errors.Is(err, context.Canceled) {
		t.Errorf("at a closed listener: %v", err)
	}
}
