package apply_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/e2e/hollow"
)

// interrupting is a store that calls a function at one of its commits, before or after it takes effect.
type interrupting struct {
	controlplane.Store
	left  int
	after bool
	call  func()
}

func (s *interrupting) Commit(ctx context.Context, txn controlplane.Txn) (controlplane.Result, error) {
	s.left--
	if s.left == 0 && !s.after {
		s.call()
	}
	result, err := s.Store.Commit(ctx, txn)
	if s.left == 0 && s.after {
		s.call()
	}
	return result, err
}

// outage is a server that is killed, perhaps with the agents as on escher dev, and with the client;
// another one begins later.
type outage struct {
	lasts          time.Duration
	agents, client bool
}

// A server that is killed at any write of an update leaves an update that ends once another one runs. At
// each revision no more tasks are away than are replaced at once.
func TestUpdateSurvivesItsServer(t *testing.T) {
	for update, holds := range map[string]func(moment) bool{
		"{atOnce: 2, healthy: 2s, timeout: 1m}":                     func(m moment) bool { return m.healthy >= 2 && m.held <= 4 },
		"{atOnce: 2, order: start-first, healthy: 2s, timeout: 1m}": func(m moment) bool { return m.healthy >= 4 && m.held <= 6 },
	} {
		file := func(image string) string {
			return strings.Replace(service(image, update), "count: 2", "count: 4", 1)
		}
		for _, out := range []outage{{}, {lasts: 7 * time.Second, agents: true}, {lasts: 3 * time.Second, client: true}} {
			writes := 0
			for killed := true; killed; writes++ {
				killed = false
				for _, after := range []bool{false, true} {
					served(t, func(t *testing.T, w *rolled, c *hollow.Cluster) {
						since := w.started(file("a"))
						ctx, cancel := context.WithCancel(t.Context())
						defer cancel()
						store := &interrupting{Store: w.store, left: writes + 1, after: after, call: func() {
							killed = true
							w.killServer(c, out)
							if out.client {
								cancel()
							}
						}}
						client, err := controlplane.New(store, "team")
						if err != nil {
							t.Fatal(err)
						}
						at := fmt.Sprintf("%s, killed at write %d (%t), %+v", update, writes, after, out)
						_, err = w.again(ctx, client, file("b"))
						if ctx.Err() != nil {
							_, err = w.again(t.Context(), w.Client, file("b"))
						}
						if err != nil {
							t.Errorf("%s: %v", at, err)
						}
						w.pass(10 * time.Second)
						w.keeps(since, at, holds)
						w.runs(file("b"), "0 b running", "1 b running", "2 b running", "3 b running")
						if err := c.Audit(t.Context()); err != nil {
							t.Errorf("%s: %v", at, err)
						}
					})
				}
			}
			if writes < 6 {
				t.Errorf("%s: there were %d writes", update, writes)
			}
		}
	}
}

// served runs f in a world of a cluster with two nodes, whose processes are simulated.
func served(t *testing.T, f func(t *testing.T, w *rolled, c *hollow.Cluster)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &rolled{newWorld(t)}
		c, err := hollow.Start(context.Background(), hollow.Config{Store: w.store, Nodes: hollow.Nodes(2, 8), StateDir: t.TempDir()})
		if err != nil {
			t.Fatal(err)
		}
		defer func() {
			if err := c.Close(); err != nil {
				t.Error(err)
			}
		}()
		f(t, w, c)
	})
}

// killServer ends what a server runs, and begins it again after the outage.
func (w *rolled) killServer(c *hollow.Cluster, out outage) {
	c.StopServing()
	c.StopKeeping()
	each := func(f func(node string) error) {
		for _, node := range []string{"n00", "n01"} {
			if err := f(node); err != nil {
				w.t.Error(err)
			}
		}
	}
	if out.agents {
		each(c.StopAgent)
	}
	time.AfterFunc(out.lasts, func() {
		c.Serve()
		c.Keep()
		if out.agents {
			each(c.StartAgent)
		}
	})
}
