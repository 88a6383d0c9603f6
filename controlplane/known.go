package controlplane

import "sync"

// maxKnown bounds how many keys a client remembers of each sort. What is forgotten is
// read.
const maxKnown = 1 << 14

// known is what a client remembers of keys, so that it need not read them before it
// writes. What it says may be out of date: whoever goes by it compares it, and reads
// when that fails.
type known struct {
	mu sync.Mutex
	of map[string]KV
}

// get returns what is remembered of a key; ok is false if that is nothing.
func (k *known) get(key string) (kv KV, ok bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	kv, ok = k.of[key]
	return kv, ok
}

func (k *known) set(kv KV) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.of == nil || len(k.of) >= maxKnown {
		k.of = make(map[string]KV)
	}
	k.of[kv.Key] = kv
}

func (k *known) forget(key string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.of, key)
}
