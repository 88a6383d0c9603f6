package server

import (
	"context"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/types"
)

// sizedAtOnce bounds the specs whose size one pass reads.
const sizedAtOnce = 2000

// sizeSpecs counts the bytes of specs that tasks began to refer to since the last pass. The
// collector does not follow specs, because each launch puts its spec again. It reads each spec
// once, because its content is its name.
func (c *Collector) sizeSpecs(ctx context.Context) error {
	c.mu.Lock()
	some := c.index.unsized[:min(len(c.index.unsized), sizedAtOnce)]
	c.index.unsized = c.index.unsized[len(some):]
	if len(c.index.unsized) > 0 {
		c.requestPass() // the others in the next pass
	}
	c.mu.Unlock()
	for i, p := range some {
		page, err := c.store.List(ctx, controlplane.ListOptions{Key: controlplane.SpecKey(p.space.name, p.digest)})
		c.mu.Lock()
		if err != nil {
			c.index.unsized = append(c.index.unsized, some[i:]...)
		} else {
			for _, kv := range page.KVs {
				c.index.sizeSpec(p, kv)
			}
		}
		c.mu.Unlock()
		if err != nil {
			return err
		}
	}
	return nil
}

// sizeSpec counts the bytes of a spec, if tasks still refer to it.
func (x *index) sizeSpec(p *spec, kv controlplane.KV) {
	if p.tasks == 0 {
		return
	}
	p.space.used.Bytes -= int64(p.bytes)
	p.bytes = int32(len(kv.Key) + len(kv.Value))
	p.space.used.Bytes += int64(p.bytes)
	p.space.requeue(x)
}

// Used reads the usage of a namespace: Keys, Bytes and Pending, as a Collector counts them.
func Used(ctx context.Context, store controlplane.Store, ns string) (types.Budget, error) {
	x, now := newIndex(), time.Now()
	s := x.space(ns)
	for _, kind := range []controlplane.Kind{
		controlplane.Tasks, controlplane.Statuses, controlplane.Jobs, controlplane.Sessions, controlplane.Resources,
		controlplane.Provided, controlplane.Reservations, controlplane.Policies, controlplane.Specs,
	} {
		_, err := controlplane.Scan(ctx, store, controlplane.ListOptions{Prefix: controlplane.Prefix(kind, ns)}, func(part []controlplane.KV) error {
			for _, kv := range part {
				k, ok := controlplane.Parse(kv.Key)
				switch {
				case kind != controlplane.Specs:
					x.apply(controlplane.Event{KV: kv}, now)
				case ok && s.specs[k.ID] != nil:
					x.sizeSpec(s.specs[k.ID], kv)
				}
			}
			return nil
		})
		if err != nil {
			return types.Budget{}, types.Errorf(types.ClassOf(err), "read the usage of namespace %s: %w", ns, err)
		}
	}
	return s.used, nil
}
