package slab_test

import (
	"bytes"
	"math/rand/v2"
	"runtime"
	"testing"

	"github.com/escher-sched/escher/controlplane/slab"
)

// TestSlab checks that texts stay unchanged, whatever else is stored and freed.
func TestSlab(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	var s slab.Slab
	kept := make(map[slab.Ref][]byte)
	for i := range 100_000 {
		if grows := i%20_000 < 12_000; grows == (rng.IntN(4) > 0) {
			text := bytes.Repeat([]byte{byte(i)}, 1+rng.IntN(slab.MaxSize))
			p := s.Alloc(len(text))
			if p == 0 || kept[p] != nil {
				t.Fatalf("%d is the place of two", p)
			}
			copy(s.At(p), text)
			kept[p] = text
			continue
		}
		for p, text := range kept {
			if !bytes.Equal(s.At(p)[:len(text)], text) {
				t.Fatalf("what is at %d has changed", p)
			}
			s.Free(p)
			delete(kept, p)
			break
		}
	}
	for p, text := range kept {
		if !bytes.Equal(s.At(p)[:len(text)], text) {
			t.Fatalf("what is at %d has changed", p)
		}
	}
}

// TestSlabGivesBack checks that space is reused, and released when it is empty.
func TestSlabGivesBack(t *testing.T) {
	live := func() int64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	const n, size = 50_000, 100
	var s slab.Slab
	places := make([]slab.Ref, n)
	before := live()
	for range 3 {
		for i := range places {
			places[i] = s.Alloc(size)
		}
		for i := range places[:n-1] {
			s.Free(places[i])
		}
		for i := range places[:n-1] {
			places[i] = s.Alloc(size)
		}
		if used := live() - before; used < n*size || used > n*size*3/2 {
			t.Errorf("%d texts of %d bytes take %d", n, size, used)
		}
		for _, p := range places {
			s.Free(p)
		}
		if used := live() - before; used > n {
			t.Errorf("nothing takes %d bytes", used)
		}
	}
	runtime.KeepAlive(&s)
}
