package nodeapi

import (
	"context"
	"sync"
	"time"

	"github.com/escher-sched/escher/types/measured"
)

// Reader reads the usage of many nodes again and again. It keeps a client for each node, so that it
// reads addresses and tokens once per session of a node, and connections last. Its methods may be called
// concurrently.
type Reader struct {
	Dialer Dialer

	mu      sync.Mutex
	clients map[string]*kept
	swept   time.Time
}

// kept is a client, and when it was used last.
type kept struct {
	client *Client
	used   time.Time
}

// keptFor is how long an unused client is kept.
const keptFor = 2 * time.Minute

// Measured returns what a node measures, with its history after since; a zero since means no history.
// The errors are those of Dial and Client.Measured.
func (r *Reader) Measured(ctx context.Context, node string, since time.Time) (measured.Answer, error) {
	c, err := r.client(ctx, node)
	if err != nil {
		return measured.Answer{}, err
	}
	said, err := c.Measured(ctx, since)
	if err != nil {
		r.drop(node, c) // the node may have a new address or session
	}
	return said, err
}

// client returns the client of a node.
func (r *Reader) client(ctx context.Context, node string) (*Client, error) {
	r.mu.Lock()
	now := time.Now()
	r.sweep(now)
	if k := r.clients[node]; k != nil {
		k.used = now
		r.mu.Unlock()
		return k.client, nil
	}
	r.mu.Unlock()
	c, err := r.Dialer.Dial(ctx, node)
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.clients == nil {
		r.clients = make(map[string]*kept)
	}
	r.clients[node] = &kept{client: c, used: now} // one of two at once closes its connections when idle
	return c, nil
}

// sweep drops the clients that have not been used for long. The caller holds r.mu.
func (r *Reader) sweep(now time.Time) {
	if now.Sub(r.swept) < keptFor {
		return
	}
	r.swept = now
	for node, k := range r.clients {
		if now.Sub(k.used) >= keptFor {
			k.client.Close()
			delete(r.clients, node)
		}
	}
}

// drop closes a client, and forgets it.
func (r *Reader) drop(node string, c *Client) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if k := r.clients[node]; k != nil && k.client == c {
		delete(r.clients, node)
	}
	c.Close()
}
