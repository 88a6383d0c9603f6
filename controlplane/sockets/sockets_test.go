package sockets_test

import (
	"strings"
	"testing"

	"github.com/escher-sched/escher/controlplane/sockets"
)

// TestDirIsShort: every process finds the same sockets by its directory, however long that is.
func TestDirIsShort(t *testing.T) {
	for _, dir := range []string{"/var/lib/escher", "/" + strings.Repeat("long/", 50), "/with space", "/with%20percent"} {
		at := sockets.Dir(dir)
		if at != sockets.Dir(dir+"/") || len(at)+1+32 > 107 || strings.ContainsAny(at, " %") {
			t.Errorf("the sockets of %s are in %s", dir, at)
		}
		if sockets.Etcd(dir) != "unix://"+at+"/"+sockets.EtcdName {
			t.Errorf("etcd of %s is at %s", dir, sockets.Etcd(dir))
		}
	}
}
