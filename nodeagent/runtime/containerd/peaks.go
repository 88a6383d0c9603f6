package containerd

import "sync"

// peaks holds the highest memory that was sampled of each container.
type peaks struct {
	mu      sync.Mutex
	highest map[string]peak
}

// peak is the highest of some samples, in bytes.
type peak struct {
	bytes   int64
	samples int
}

// enough is the number of samples that are not likely to miss the peak.
const enough = 10

func (p *peaks) note(id string, bytes int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.highest == nil {
		p.highest = make(map[string]peak)
	}
	was := p.highest[id]
	p.highest[id] = peak{max(was.bytes, bytes), was.samples + 1}
}

// of returns the highest sample of a container; ok is false if there are too few.
func (p *peaks) of(id string) (bytes int64, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.highest[id].bytes, p.highest[id].samples >= enough
}

func (p *peaks) forget(id string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.highest, id)
}
