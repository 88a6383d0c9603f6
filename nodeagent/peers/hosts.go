package peers

import (
	"context"
	"sync"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/types"
)

const (
	// hostAge is how long the host of a node is remembered. Gangs begin again on the same nodes.
	hostAge = time.Minute
	// maxHosts bounds the remembered nodes.
	maxHosts = 2 * types.MaxPeers
)

// nodeSession is a node in a session: a machine with another address has another session.
type nodeSession struct {
	node    string
	session int64
}

// hosts remembers the hosts of nodes.
type hosts struct {
	mu    sync.Mutex
	known map[nodeSession]knownHost
}

type knownHost struct {
	host string
	read time.Time
}

// of returns the hosts of nodes, and reads those it does not remember. It leaves out what cannot be
// read.
func (h *hosts) of(ctx context.Context, r *Reader, nodes map[nodeSession]bool, revision int64) (map[nodeSession]string, error) {
	out := make(map[nodeSession]string, len(nodes))
	lacking := make(map[string]nodeSession)
	h.mu.Lock()
	for n := range nodes {
		if is, ok := h.known[n]; ok && time.Since(is.read) < hostAge {
			out[n] = is.host
		} else {
			lacking[controlplane.NodeKey(n.node)] = n
		}
	}
	h.mu.Unlock()
	keys := make([]string, 0, len(lacking))
	for key := range lacking {
		keys = append(keys, key)
	}
	found, err := r.many(ctx, keys, revision)
	if err != nil {
		return nil, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.known == nil || len(h.known)+len(found) > maxHosts {
		h.known = make(map[nodeSession]knownHost)
	}
	for key, n := range lacking {
		var node types.Node
		if read(found, key, &node) {
			out[n] = hostOf(n.node, &node)
			h.known[n] = knownHost{out[n], time.Now()}
		}
	}
	return out, nil
}
