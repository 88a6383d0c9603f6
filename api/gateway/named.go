package gateway

import (
	"context"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/etcdstore"
	"github.com/escher-sched/escher/types"
	"github.com/escher-sched/escher/types/rights"
)

// Settings of a namespace may name shared policies of other namespaces, in which its jobs take part. Programs
// that submit jobs there read these policies.

const (
	// namedFor is how long what was read of all settings counts.
	namedFor = time.Second
	// maxSettings bounds the namespaces with settings that are read: policies of further ones stay hidden.
	maxSettings = 10_000
)

// named has the namespaces whose settings name a policy, by its name, such as org:lab.
type named struct {
	at         time.Time
	namespaces map[string][]string
}

// namedBy returns the namespaces whose settings name a policy.
func (g *Gateway) namedBy(ctx context.Context, policy string) ([]string, error) {
	now := g.cfg.Now()
	g.mu.Lock()
	is := g.named
	g.mu.Unlock()
	if is.namespaces != nil && now.Sub(is.at) < namedFor {
		return is.namespaces[policy], nil
	}
	prefix := controlplane.Prefix(controlplane.Namespaces)
	res, err := g.kv.Range(ctx, &pb.RangeRequest{Key: []byte(prefix), RangeEnd: []byte(etcdstore.PrefixEnd(prefix)), Limit: maxSettings}, answers())
	if err != nil {
		return nil, err
	}
	is = named{at: now, namespaces: make(map[string][]string)}
	for _, kv := range res.Kvs {
		var n types.Namespace
		k, ok := controlplane.Parse(string(kv.Key))
		if !ok || !controlplane.Read(controlplane.KV{Key: string(kv.Key), Value: kv.Value}, &n) {
			continue
		}
		for _, p := range n.Policies {
			is.namespaces[p.Name] = append(is.namespaces[p.Name], k.Namespace)
		}
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.named = is
	return is.namespaces[policy], nil
}

// takesPart reports whether the user may submit jobs of a namespace whose settings name a policy.
func (u user) takesPart(ctx context.Context, k controlplane.Key) (bool, error) {
	if k.Kind != controlplane.Policies || u.namedBy == nil {
		return false, nil
	}
	all, err := u.namedBy(ctx, k.Namespace+":"+k.ID)
	if err != nil {
		return false, err
	}
	for _, ns := range all {
		if u.node == "" && u.May(rights.Need{Verb: rights.Write, Kind: rights.Tasks}, ns) == nil {
			return true, nil
		}
		if u.node == "" {
			continue
		}
		if bound, err := u.bound(ctx, u.node, ns); bound || err != nil {
			return bound, err
		}
	}
	return false, nil
}
