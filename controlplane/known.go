package controlplane

import (
	"strings"
	"sync"
)

// maxKnown bounds how many keys a client remembers of each sort. What is forgotten is
// read.
const maxKnown = 1 << 14

// known is what a client remembers of keys, so that it need not read them before it
// writes. What it says may be out of date: whoever goes by it compares it, and reads
// when that fails.
type known struct {
	mu sync.Mutex
	// sessions are those of nodes, which are used again and again; others come and go.
	sessions, others map[string]KV
}

// sort returns where a key is remembered.
func (k *known) sort(key string) *map[string]KV {
	if strings.HasPrefix(key, Prefix(Alive)) {
		return &k.sessions
	}
	return &k.others
}

// get returns what is remembered of a key; ok is false if that is nothing.
func (k *known) get(key string) (kv KV, ok bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	kv, ok = (*k.sort(key))[key]
	return kv, ok
}

func (k *known) set(kv KV) {
	k.mu.Lock()
	defer k.mu.Unlock()
	of := k.sort(kv.Key)
	if *of == nil || len(*of) >= maxKnown {
		*of = make(map[string]KV)
	}
	(*of)[kv.Key] = kv
}

func (k *known) forget(key string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(*k.sort(key), key)
}
