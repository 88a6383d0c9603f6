package controlplane

import (
	"fmt"
	"testing"
)

// TestSessionsAreRemembered checks that memory of sessions survives any number of resources.
func TestSessionsAreRemembered(t *testing.T) {
	var k known
	k.set(KV{Key: AliveKey("n1"), CreateRevision: 7})
	for i := range maxKnown + 1 {
		k.set(KV{Key: ResourceKey("ns", fmt.Sprint("x", i), "n1"), ModRevision: 8})
	}
	if kv, ok := k.get(AliveKey("n1")); !ok || kv.CreateRevision != 7 {
		t.Errorf("of the session is known %v, %v", kv, ok)
	}
	if n := len(k.others); n > maxKnown {
		t.Errorf("%d others are known", n)
	}
	k.forget(AliveKey("n1"))
	if _, ok := k.get(AliveKey("n1")); ok {
		t.Error("a session is known that was to be forgotten")
	}
}
