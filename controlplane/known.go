package controlplane

import (
	"strings"
	"sync"
)

// maxKnown bounds the keys of each sort that a client remembers. The client reads the others.
const maxKnown = 1 << 14

// known is a client's memory of keys, which saves reads before writes. It may be out of date: a
// change compares what it took from here, and reads when that fails.
type known struct {
	mu sync.Mutex
	// sessions holds those of nodes, which are used again and again; others come and go.
	sessions, others map[string]KV
}

// sort returns the map that remembers a key.
func (k *known) sort(key string) *map[string]KV {
	if strings.HasPrefix(key, Prefix(Alive)) {
		return &k.sessions
	}
	return &k.others
}

// get returns the remembered value of a key; ok is false if there is none.
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
