package nodeapi_test

import (
	"testing"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/memstore"
	"github.com/escher-sched/escher/nodeagent/nodeapi"
	"github.com/escher-sched/escher/types"
)

// TestDial takes the token from its own key and, of an agent of an older version, from that of
// its session.
func TestDial(t *testing.T) {
	for name, c := range map[string]struct {
		alive, token string
		want         types.Class
	}{
		"own key":            {"", token, 0},
		"older version":      {token, "", 0},
		"both, as resumed":   {"of the past", token, 0},
		"not the one it has": {token, "of the past", types.Unavailable},
	} {
		t.Run(name, func(t *testing.T) {
			w, store := newWorld(t), memstore.New()
			change := controlplane.NewChange(1)
			change.Put(controlplane.NodeKey("n"), &types.Node{Address: w.url})
			change.Put(controlplane.AliveKey("n"), &types.Alive{TTLSeconds: 15, Token: c.alive})
			if c.token != "" {
				change.Put(controlplane.TokenKey("n"), &types.Token{Token: c.token})
			}
			if _, err := store.Commit(t.Context(), change.Txn()); err != nil {
				t.Fatal(err)
			}
			client, err := nodeapi.Dialer{Store: store}.Dial(t.Context(), "n")
			if err != nil {
				t.Fatal(err)
			}
			defer client.Close()
			_, err = client.Usage(t.Context(), time.Time{})
			if c.want == 0 && err != nil || c.want != 0 && !types.Is(err, c.want) {
				t.Error(err)
			}
		})
	}
}
