package nodeagent

import (
	"context"
	"sync"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/types"
)

const (
	// settingsAge is how long the settings of a namespace are cached.
	settingsAge = 10 * time.Second
	// settingsWait limits how long a start waits for the settings.
	settingsWait = time.Second
	// maxSettings limits the number of cached namespaces.
	maxSettings = 256
)

// namespaces reads an administrator's settings for the namespaces of tasks on this node. After a
// failed read the previous settings hold, or none.
type namespaces struct {
	store controlplane.Store
	mu    sync.Mutex
	known map[string]*settings
}

// settings are the settings of a namespace and the time they were read.
type settings struct {
	v    *types.Namespace
	read time.Time
}

// get returns the settings of a namespace, which may be settingsAge old; nil means none.
func (n *namespaces) get(ctx context.Context, ns string) *types.Namespace {
	n.mu.Lock()
	is := n.known[ns]
	fresh := is != nil && time.Since(is.read) < settingsAge
	if is != nil && !fresh {
		n.known[ns] = &settings{is.v, time.Now()} // One caller reads; the others use the old settings.
	}
	n.mu.Unlock()
	if fresh {
		return is.v
	}
	ctx, cancel := context.WithTimeout(ctx, settingsWait)
	defer cancel()
	got := settings{read: time.Now()}
	page, err := n.store.List(ctx, controlplane.ListOptions{Key: controlplane.NamespaceKey(ns)})
	switch {
	case err != nil && is != nil:
		got.v = is.v
	case err == nil && len(page.KVs) > 0:
		if v := new(types.Namespace); controlplane.Read(page.KVs[0], v) {
			got.v = v
		}
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.known == nil || len(n.known) >= maxSettings {
		n.known = make(map[string]*settings)
	}
	n.known[ns] = &got
	return got.v
}
