package contexts_test

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"context"

	"github.com/escher-sched/escher/api/contexts"
	"github.com/escher-sched/escher/controlplane/etcdstore"
	"github.com/escher-sched/escher/types"
)

// env is an environment for Find, with a home of its own.
type env map[string]string

func (e env) get(name string) string { return e[name] }

func newEnv(t *testing.T, more map[string]string) env {
	t.Helper()
	e := env{"HOME": t.TempDir()}
	file := contexts.File{Current: "far", Contexts: map[string]contexts.Context{
		"far":  {Address: etcdstore.Address{Endpoints: []string{"https://far:2379"}, CACert: "far.pem"}, Namespace: "lab"},
		"near": {Dir: "/near"},
	}}
	if err := file.Save(contexts.Path(e.get)); err != nil {
		t.Fatal(err)
	}
	for name, value := range more {
		e[name] = value
	}
	return e
}

// TestFind: flags come before the task's socket, that before the environment, and that before the
// context in use.
func TestFind(t *testing.T) {
	etcd := func(endpoint string) etcdstore.Address { return etcdstore.Address{Endpoints: []string{endpoint}} }
	for name, test := range map[string]struct {
		given contexts.Given
		env   map[string]string
		// endpoint, namespace, socket and context are what is found.
		endpoint, namespace, socket, context string
	}{
		"the current context": {endpoint: "https://far:2379", namespace: "lab", context: "far"},
		"a context by the environment": {
			env: map[string]string{"ESCHER_CONTEXT": "near"}, endpoint: contexts.Endpoint("/near"), namespace: "default", context: "near",
		},
		"an address in the environment": {
			env: map[string]string{"ESCHER_ENDPOINTS": "host:1", "ESCHER_NAMESPACE": "env"}, endpoint: "host:1", namespace: "env",
		},
		"a directory in the environment": {env: map[string]string{"ESCHER_DIR": "/d"}, endpoint: contexts.Endpoint("/d"), namespace: "default"},
		"a flagged context before the environment": {
			given: contexts.Given{Context: "far"}, env: map[string]string{"ESCHER_ENDPOINTS": "host:1", "ESCHER_NAMESPACE": "env"},
			endpoint: "https://far:2379", namespace: "lab", context: "far",
		},
		"a flagged address before all": {
			given: contexts.Given{Address: etcd("flag:1"), Namespace: "own"}, env: map[string]string{"ESCHER_ENDPOINTS": "host:1", "ESCHER_SOCKET": "/s"},
			endpoint: "flag:1", namespace: "own",
		},
		"a flagged directory": {
			given: contexts.Given{Dir: "/flag"}, env: map[string]string{"ESCHER_ENDPOINTS": "host:1"}, endpoint: contexts.Endpoint("/flag"), namespace: "default",
		},
		"a task": {
			env: map[string]string{"ESCHER_SOCKET": "/s", "ESCHER_NAMESPACE": "mine"}, endpoint: contexts.Endpoint("/home"), namespace: "mine", socket: "/s",
		},
	} {
		t.Run(name, func(t *testing.T) {
			e := newEnv(t, test.env)
			p, err := contexts.Find(test.given, e.get)
			if err != nil {
				t.Fatal(err)
			}
			if test.socket != "" {
				test.endpoint = contexts.Endpoint(filepath.Join(e["HOME"], ".local/share/escher"))
			}
			if p.String() != test.endpoint || p.Namespace != test.namespace || p.Socket != test.socket || p.Context != test.context {
				t.Errorf("found %+v at %s, want %+v", p, p, test)
			}
		})
	}
}

// TestFindKeepsCertificates: those of a context go with its endpoints, and with no others.
func TestFindKeepsCertificates(t *testing.T) {
	e := newEnv(t, nil)
	if p, err := contexts.Find(contexts.Given{}, e.get); err != nil || p.CACert != "far.pem" {
		t.Errorf("the context has %+v, %v", p, err)
	}
	given := contexts.Given{Address: etcdstore.Address{Endpoints: []string{"https://other:1"}}}
	if p, err := contexts.Find(given, e.get); err != nil || p.CACert != "" || !slices.Equal(p.Endpoints, given.Endpoints) {
		t.Errorf("other endpoints have %+v, %v", p, err)
	}
}

func TestFindRefuses(t *testing.T) {
	e := newEnv(t, nil)
	if _, err := contexts.Find(contexts.Given{Context: "gone"}, e.get); !types.Is(err, types.NotFound) || !strings.Contains(err.Error(), "far, near") {
		t.Errorf("an unknown context: %v", err)
	}
	p, err := contexts.Find(contexts.Given{}, func(string) string { return "" })
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.Dial(t.Context()); !types.Is(err, types.Invalid) || !strings.Contains(err.Error(), "HOME") {
		t.Errorf("no home: %v", err)
	}
}

// TestDialSaysWhatToDo: the remedy is about the place that was found.
func TestDialSaysWhatToDo(t *testing.T) {
	for _, test := range []struct {
		given contexts.Given
		says  string
	}{
		{contexts.Given{Dir: "/nowhere"}, "escher dev --dir /nowhere"},
		{contexts.Given{Address: etcdstore.Address{Endpoints: []string{"127.0.0.1:1"}}}, "ESCHER_ENDPOINTS"},
	} {
		p, err := contexts.Find(test.given, newEnv(t, nil).get)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		defer cancel()
		if _, err := p.Dial(ctx); !types.Is(err, types.Unavailable) || !strings.Contains(err.Error(), test.says) {
			t.Errorf("%+v: %v", test.given, err)
		}
	}
}

// TestStore: a place with a server is reached by its gateway, and one without by etcd.
func TestStore(t *testing.T) {
	for _, c := range []struct {
		place    contexts.Place
		endpoint string
		token    string
		secure   bool
	}{
		{contexts.Place{Server: "https://example.com:7421", Token: "t"}, "https://example.com:7421", "t", true},
		{contexts.Place{Server: "https://example.com", Token: "t"}, "https://example.com:443", "t", true},
		{contexts.Place{Server: "http://127.0.0.1:7421", Token: "t"}, "http://127.0.0.1:7421", "t", false},
		{contexts.Place{Server: "unix:///run/api.sock"}, "unix:///run/api.sock", "", false},
		{contexts.Place{Address: etcdstore.Address{Endpoints: []string{"10.0.0.1:2379"}}, Token: "t"}, "10.0.0.1:2379", "", false},
		{contexts.Place{Dir: "/c"}, contexts.Endpoint("/c"), "", false},
	} {
		cfg, err := c.place.Store()
		if err != nil || cfg.Endpoints[0] != c.endpoint || cfg.Token != c.token || (cfg.TLS != nil) != c.secure {
			t.Errorf("%+v: %+v, %v", c.place, cfg, err)
		}
	}
	for _, server := range []string{"example.com", "ftp://example.com:1", "https://"} {
		if cfg, err := (contexts.Place{Server: server}).Store(); !types.Is(err, types.Invalid) {
			t.Errorf("%q: %+v, %v", server, cfg, err)
		}
	}
}
