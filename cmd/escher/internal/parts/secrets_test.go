package parts

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/escher-sched/escher/api/access"
	"github.com/escher-sched/escher/api/rest"
	"github.com/escher-sched/escher/controlplane/memstore"
	"github.com/escher-sched/escher/nodeagent"
	"github.com/escher-sched/escher/types"
)

// TestSecretsOfAnOlderServer: an agent tries again while its server is too old to open secrets, and fails a
// task only if the server knows that a secret is missing. It pulls without a login if its server has none.
func TestSecretsOfAnOlderServer(t *testing.T) {
	store := memstore.New()
	authority := access.New(store, time.Now, zap.NewNop())
	api := rest.Handler(rest.Config{
		Store: store, Now: time.Now, Version: "test", Log: zap.NewNop(), Authority: authority,
		Identify: func(*http.Request) (access.Identity, error) { return access.Root("root"), nil },
	})
	for name, c := range map[string]struct {
		handler http.HandlerFunc
		class   types.Class
		says    string
	}{
		"an older server": {func(w http.ResponseWriter, r *http.Request) {
			r.URL.Path = "/v1/nodes/n1/unknown" // an operation that it does not have
			api.ServeHTTP(w, r)
		}, types.Unavailable, "there is no such operation: /openapi.json lists all: upgrade this server"},
		"another program": {http.NotFound, types.Unavailable, "upgrade this server"},
		"no such secret": {func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusNotFound)
			_, _ = w.Write([]byte(`{"status":404,"class":"not found","detail":"find secret db: namespace lab has none"}`))
		}, types.NotFound, "find secret db: namespace lab has none"},
		"this version": {api.ServeHTTP, types.Denied, "user:root is not the agent of node n1"},
		"a broken one": {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) }, types.Internal, "answers 502"},
	} {
		server := httptest.NewServer(c.handler)
		attempt := nodeagent.Attempt{Node: "n1", Namespace: "lab", Task: "one", Number: 1}
		_, err := Join{Server: server.URL}.secrets(&nodeIdentity{})(t.Context(), attempt)
		login, none := Join{Server: server.URL}.logins(&nodeIdentity{})(t.Context(), attempt)
		server.Close()
		if isOlder := c.class == types.Unavailable; login.Secret != "" || (none == nil) != isOlder || !isOlder && types.ClassOf(none) != c.class {
			t.Errorf("%s: the login is %+v, %v", name, login, none)
		}
		if !types.Is(err, c.class) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v of class %s, want %s: %s", name, err, types.ClassOf(err), c.class, c.says)
		}
	}
}
