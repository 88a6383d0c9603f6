//go:build linux

package watchdog

import (
	"bytes"
	"testing"
	"time"
)

// FuzzPage decodes any bytes as the page of the deadline: a decoded page equals a written one, and
// a half-written page is invalid.
func FuzzPage(f *testing.F) {
	f.Add(encodePage(time.Hour, "boot"), 3)
	f.Add(make([]byte, pageSize), 0)
	f.Fuzz(func(t *testing.T, text []byte, torn int) {
		page := append(bytes.Clone(text), make([]byte, pageSize)...)[:pageSize]
		killAt, boot, ok := decodePage(page)
		if !ok {
			return
		}
		again := append(encodePage(killAt, boot), make([]byte, pageSize-recordSize)...)
		at, bootAgain, ok := decodePage(again)
		if !ok || at != killAt || bootAgain != boot {
			t.Fatalf("%d %q comes back as %d %q, %t", killAt, boot, at, bootAgain, ok)
		}
		again[uint(torn)%recordSize] ^= 1
		if at, _, ok := decodePage(again); ok {
			t.Fatalf("a torn page says %d", at)
		}
	})
}
