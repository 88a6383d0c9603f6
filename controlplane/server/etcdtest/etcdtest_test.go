package etcdtest_test

import (
	"testing"

	"github.com/escher-sched/escher/controlplane/server/etcdtest"
)

func TestStart(t *testing.T) {
	srv := etcdtest.Start(t)
	resp, err := srv.Client.Put(t.Context(), "a", "b")
	if err != nil {
		t.Fatal(err)
	}
	if resp.Header.Revision != 2 {
		t.Errorf("first revision is %d, want 2", resp.Header.Revision)
	}
}
