package containerd

import "sync"

// peaks holds the highest memory that was sampled of each container, in bytes.
type peaks struct {
	mu      sync.Mutex
	highest map[string]int64
}

func (p *peaks) note(id string, bytes int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.highest == nil {
		p.highest = make(map[string]int64)
	}
	p.highest[id] = max(p.highest[id], bytes)
}

func (p *peaks) of(id string) int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.highest[id]
}

func (p *peaks) forget(id string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.highest, id)
}
