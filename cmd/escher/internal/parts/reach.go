package parts

import (
	"context"
	"errors"
	"net"
	"net/url"
	"strings"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/types"
)

// HostTowards returns the address of this machine from which it reaches the first of some
// endpoints; loopback if that is on this machine, or a socket. It sends nothing.
func HostTowards(endpoints []string) string {
	const loopback = "127.0.0.1"
	for _, e := range endpoints {
		if u, err := url.Parse(e); err == nil && u.Host != "" {
			e = u.Host
		}
		if strings.HasPrefix(e, "unix:") {
			continue
		}
		conn, err := net.Dial("udp", e)
		if err != nil {
			continue
		}
		host, _, err := net.SplitHostPort(conn.LocalAddr().String())
		if conn.Close() == nil && err == nil {
			return host
		}
	}
	return loopback
}

// AwaitAlive returns when all of these nodes are alive.
func AwaitAlive(ctx context.Context, store controlplane.Store, nodes []string) error {
	missing := make(map[string]bool)
	for _, n := range nodes {
		missing[controlplane.AliveKey(n)] = true
	}
	return Await(ctx, store, controlplane.Prefix(controlplane.Alive), func(u controlplane.Update) bool {
		for _, e := range u.Events {
			if _, ours := missing[e.Key]; ours {
				missing[e.Key] = e.Delete
			}
		}
		for _, still := range missing {
			if still {
				return false
			}
		}
		return true
	})
}

// errReached ends a watch that is done.
var errReached = types.Errorf(types.Internal, "reached")

// Await watches a prefix until seen returns true.
func Await(ctx context.Context, store controlplane.Store, prefix string, seen func(controlplane.Update) bool) error {
	err := controlplane.ListWatch(ctx, store, controlplane.ListWatchOptions{Prefix: prefix}, func(u controlplane.Update) error {
		if seen(u) {
			return errReached
		}
		return nil
	})
	if errors.Is(err, errReached) {
		return nil
	}
	return err
}
