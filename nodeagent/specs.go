package nodeagent

import (
	"context"
	"strings"
	"sync"

	"golang.org/x/sync/singleflight"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/types"
)

// maxSpecs limits the cached specs: the tasks of a job share one, and a node runs tasks of few jobs
// at a time.
const maxSpecs = 64

// specs reads and caches specs by their digest. Specs are immutable.
type specs struct {
	store  controlplane.Store
	flight singleflight.Group
	mu     sync.Mutex
	known  map[string]*types.Spec
}

// get returns a spec. NotFound: it is not stored.
func (s *specs) get(ctx context.Context, ns, digest string) (*types.Spec, error) {
	key := controlplane.SpecKey(ns, digest)
	s.mu.Lock()
	spec := s.known[key]
	s.mu.Unlock()
	if spec != nil {
		return spec, nil
	}
	got, err, _ := s.flight.Do(key, func() (any, error) { return s.read(ctx, key) })
	if err != nil {
		return nil, err
	}
	return got.(*types.Spec), nil
}

func (s *specs) read(ctx context.Context, key string) (*types.Spec, error) {
	page, err := s.store.List(ctx, controlplane.ListOptions{Key: key})
	if err != nil {
		return nil, err
	}
	if len(page.KVs) == 0 {
		return nil, types.Errorf(types.NotFound, "read spec %s: it is not stored", key)
	}
	spec := new(types.Spec)
	if err := types.Decode(page.KVs[0].Value, spec); err != nil {
		return nil, types.Errorf(types.Invalid, "read spec %s: %w", key, err)
	}
	if digest := controlplane.SpecDigest(spec); !strings.HasSuffix(key, "/"+digest) {
		return nil, types.Errorf(types.Invalid, "read spec %s: its content has digest %s: submit the task again", key, digest)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.known) >= maxSpecs {
		// Any will do: it can be read again.
		for other := range s.known {
			delete(s.known, other)
			break
		}
	}
	s.known[key] = spec
	return spec, nil
}
