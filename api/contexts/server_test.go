package contexts_test

import (
	"testing"

	"github.com/escher-sched/escher/api/contexts"
	"github.com/escher-sched/escher/controlplane/etcdstore"
	"github.com/escher-sched/escher/types"
)

// TestServer finds the server of the API, and the token for it: that of one server is sent to no other.
func TestServer(t *testing.T) {
	e := env{"HOME": t.TempDir()}
	file := contexts.File{Current: "prod", Contexts: map[string]contexts.Context{
		"prod": {Server: "https://prod:7421", Token: "of prod", Namespace: "lab", Address: etcdstore.Address{CACert: "prod.pem"}},
		"etcd": {Address: etcdstore.Address{Endpoints: []string{"https://far:2379"}}},
	}}
	if err := file.Save(contexts.Path(e.get)); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		given                            contexts.Given
		env                              map[string]string
		server, token, endpoint, context string
	}{
		"the context in use":              {server: "https://prod:7421", token: "of prod", context: "prod"},
		"a flagged server":                {given: contexts.Given{Server: "https://other:1"}, server: "https://other:1"},
		"a flagged server, and a token":   {given: contexts.Given{Server: "https://other:1"}, env: map[string]string{"ESCHER_TOKEN": "env"}, server: "https://other:1", token: "env"},
		"a server in the environment":     {env: map[string]string{"ESCHER_SERVER": "https://env:1", "ESCHER_TOKEN": "env"}, server: "https://env:1", token: "env"},
		"a flag before the environment":   {given: contexts.Given{Context: "prod"}, env: map[string]string{"ESCHER_SERVER": "https://env:1", "ESCHER_TOKEN": "env"}, server: "https://prod:7421", token: "of prod", context: "prod"},
		"flagged endpoints":               {given: contexts.Given{Address: etcdstore.Address{Endpoints: []string{"host:1"}}}, env: map[string]string{"ESCHER_SERVER": "https://env:1"}, endpoint: "host:1"},
		"a flagged context without one":   {given: contexts.Given{Context: "etcd"}, env: map[string]string{"ESCHER_TOKEN": "env"}, endpoint: "https://far:2379", token: "env", context: "etcd"},
		"a flagged directory":             {given: contexts.Given{Dir: "/d"}, endpoint: contexts.Endpoint("/d")},
		"a server in a task, by the flag": {given: contexts.Given{Server: "https://other:1"}, env: map[string]string{"ESCHER_SOCKET": "/s"}, server: "https://other:1"},
	} {
		for k, v := range c.env {
			e[k] = v
		}
		p, err := contexts.Find(c.given, e.get)
		for k := range c.env {
			delete(e, k)
		}
		if err != nil || p.Server != c.server || p.Token != c.token || p.Context != c.context {
			t.Errorf("%s: %+v, %v", name, p, err)
		}
		address, err := p.Etcd()
		if c.server != "" {
			if !types.Is(err, types.Precondition) || p.String() != c.server {
				t.Errorf("%s: etcd at %v, %v", name, address, err)
			}
			continue
		}
		if err != nil || address.Endpoints[0] != c.endpoint {
			t.Errorf("%s: etcd at %v, %v", name, address, err)
		}
	}
}
