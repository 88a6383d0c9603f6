package nodeapi_test

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/memstore"
	"github.com/escher-sched/escher/nodeagent/runtime/simruntime"
	"github.com/escher-sched/escher/nodeagent/runtime/workdir"
	"github.com/escher-sched/escher/nodeagent/serve/nodeapi"
	"github.com/escher-sched/escher/types"
)

// packed returns the image of a directory with two files, of two layers.
func packed(t *testing.T) *workdir.Image {
	t.Helper()
	dir := t.TempDir()
	for name, size := range map[string]int{"small": 1, "large": 8 << 20} {
		if err := os.WriteFile(filepath.Join(dir, name), make([]byte, size), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	tree, err := workdir.Scan(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	img, err := tree.Image(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return img
}

// load gives layers of an image to a runtime.
func load(t *testing.T, r *simruntime.Runtime, img *workdir.Image, layers []string) {
	t.Helper()
	var archive bytes.Buffer
	if err := img.Write(t.Context(), &archive, layers); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Load(t.Context(), &archive); err != nil {
		t.Fatal(err)
	}
}

// serving is a node that serves a runtime, and counts the bytes of its answers.
type serving struct {
	runtime *simruntime.Runtime
	url     string
	sent    int
}

func (s *serving) Write(p []byte) (int, error) { s.sent += len(p); return len(p), nil }

func newServing(t *testing.T, agent *agent) *serving {
	t.Helper()
	s := &serving{runtime: simruntime.New(simruntime.Config{})}
	inner := nodeapi.Handler(nodeapi.Config{Agent: agent, Runtime: s.runtime})
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		inner.ServeHTTP(&counting{w, s}, r)
	}))
	t.Cleanup(srv.Close)
	s.url = srv.URL
	return s
}

type counting struct {
	http.ResponseWriter
	to *serving
}

func (c *counting) Write(p []byte) (int, error) {
	_, _ = c.to.Write(p) // it counts
	return c.ResponseWriter.Write(p)
}

func (c *counting) Unwrap() http.ResponseWriter { return c.ResponseWriter }

// stored returns a store with live nodes of these addresses.
func stored(t *testing.T, addresses map[string]string) controlplane.Store {
	t.Helper()
	store := memstore.New()
	change := controlplane.NewChange(1)
	for node, address := range addresses {
		change.Put(controlplane.NodeKey(node), &types.Node{Address: address})
		change.Put(controlplane.AliveKey(node), &types.Alive{TTLSeconds: 15})
	}
	if _, err := store.Commit(t.Context(), change.Txn()); err != nil {
		t.Fatal(err)
	}
	return store
}

// TestFetchWorkdir tests that a node gets the layers that it lacks from another, without a token.
func TestFetchWorkdir(t *testing.T) {
	img := packed(t)
	with, without := newServing(t, &agent{token: token}), newServing(t, &agent{token: token})
	load(t, with.runtime, img, img.Digests())
	own := simruntime.New(simruntime.Config{})
	store := stored(t, map[string]string{"a": without.url, "b": with.url, "own": "unix:///none", "closed": "http://127.0.0.1:1", "older": ""})
	dialer := nodeapi.Dialer{Store: store}
	if err := dialer.FetchWorkdir(t.Context(), "own", own, img.Name); err != nil {
		t.Fatal(err)
	}
	layers, err := own.Layers(t.Context(), img.Name)
	if err != nil || !slices.Equal(layers, img.Digests()) {
		t.Errorf("has %q, %v; want %q", layers, err, img.Digests())
	}
	if with.sent < 8<<20 {
		t.Errorf("sent %d bytes, want all layers", with.sent)
	}
	// Another machine has the large layer, of another version.
	partly := simruntime.New(simruntime.Config{})
	other := packed(t)
	load(t, partly, other, other.Digests())
	with.sent = 0
	if err := dialer.FetchWorkdir(t.Context(), "own", partly, img.Name); err != nil {
		t.Fatal(err)
	}
	if with.sent > 1<<20 {
		t.Errorf("sent %d bytes, want the missing layers alone", with.sent)
	}
}

func TestFetchWorkdirThatNoNodeHas(t *testing.T) {
	img := packed(t)
	without, own := newServing(t, &agent{}), simruntime.New(simruntime.Config{})
	err := nodeapi.Dialer{Store: stored(t, map[string]string{"a": without.url, "own": "unix:///none", "older": ""})}.FetchWorkdir(t.Context(), "own", own, img.Name)
	if !types.Is(err, types.NotFound) {
		t.Errorf("got %v, want NotFound: every node said so", err)
	}
	err = nodeapi.Dialer{Store: stored(t, map[string]string{"a": without.url, "silent": "http://127.0.0.1:1"})}.FetchWorkdir(t.Context(), "own", own, img.Name)
	if !types.Is(err, types.Unavailable) || !strings.Contains(err.Error(), "silent") {
		t.Errorf("got %v, want Unavailable: the node that is silent may have it", err)
	}
}

// TestFetchWorkdirByServer tests that a node gets a workdir by a server if it is given one, whatever addresses
// the other nodes have.
func TestFetchWorkdirByServer(t *testing.T) {
	img, with := packed(t), newServing(t, &agent{token: token})
	load(t, with.runtime, img, img.Digests())
	own := simruntime.New(simruntime.Config{})
	asked := 0
	dialer := nodeapi.Dialer{Store: stored(t, map[string]string{"a": types.TunnelAddress, "own": types.TunnelAddress}), Server: &nodeapi.Server{
		Node: func(name string) *nodeapi.Client {
			asked++
			c, err := nodeapi.New(name, with.url, "", nil)
			if err != nil {
				t.Error(err)
			}
			return c
		},
	}}
	if err := dialer.FetchWorkdir(t.Context(), "own", own, img.Name); err != nil || asked != 1 {
		t.Fatalf("%v, by %d nodes", err, asked)
	}
	if layers, err := own.Layers(t.Context(), img.Name); err != nil || !slices.Equal(layers, img.Digests()) {
		t.Errorf("has %q, %v; want %q", layers, err, img.Digests())
	}
}

func TestLacking(t *testing.T) {
	w, img := newWorld(t), packed(t)
	lacking, err := w.Lacking(t.Context(), img.Digests())
	if err != nil || !slices.Equal(lacking, img.Digests()) {
		t.Errorf("lacks %q, %v; want all", lacking, err)
	}
	load(t, w.runtime.Runtime, img, img.Digests())
	if lacking, err = w.Lacking(t.Context(), img.Digests()); err != nil || len(lacking) > 0 {
		t.Errorf("lacks %q, %v; want none", lacking, err)
	}
	if _, err := w.client(t, "wrong").Lacking(t.Context(), nil); !types.Is(err, types.Unavailable) {
		t.Errorf("with another token: %v", err)
	}
	many := make([]string, 65)
	for i := range many {
		many[i] = fmt.Sprintf("sha256:%064d", i)
	}
	for _, wrong := range [][]string{{"sha256:x"}, {"../../etc"}, many} {
		if _, err := w.Lacking(t.Context(), wrong); !types.Is(err, types.Invalid) {
			t.Errorf("%.40q: %v, want Invalid", wrong, err)
		}
		if _, err := w.Export(t.Context(), img.Name, wrong); !types.Is(err, types.Invalid) {
			t.Errorf("export of %.40q: %v, want Invalid", wrong, err)
		}
	}
	for _, wrong := range []string{"", "docker.io/library/busybox:1.36", "escher.local/workdir@sha256:12", "escher.local/workdir:latest"} {
		if _, err := w.Layers(t.Context(), wrong); !types.Is(err, types.Invalid) {
			t.Errorf("%q: %v, want Invalid", wrong, err)
		}
	}
	if _, err := w.Layers(t.Context(), types.UnsentWorkdir); !types.Is(err, types.NotFound) {
		t.Errorf("%v, want NotFound", err)
	}
}
