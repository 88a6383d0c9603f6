package e2e

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/etcdstore"
	"github.com/escher-sched/escher/types"
)

// stopOfTask and reasonOfStop are the numbers of fields in escher.proto.
const (
	stopOfTask   = 14
	reasonOfStop = 2
)

// TestHugeTexts stores texts of any size with other programs, past all checks: a path of 530,000
// bytes, and stop reasons of 100,000 and 1,572,300 bytes, before a drain that ends tasks sooner.
// The cluster continues, and Ctrl-C leaves nothing behind.
func TestHugeTexts(t *testing.T) {
	t.Parallel() // it mostly waits
	c := newCluster(t)
	select {
	case <-c.launch("--nodes", "2"):
	case err := <-c.ended:
		t.Fatalf("escher dev did not start: %v\n%s", err, c.stderr)
	}
	c.must("image", "make", image, built.program)
	for _, name := range []string{"long", "huge", "stays"} {
		c.on(t, "node-1", "--name", name, "--grace", "1h", image, "--", "/bin/program", "heed", "nothing")
	}
	store, err := etcdstore.Open(etcdstore.Config{Endpoints: []string{"unix://" + filepath.Join(c.dir, "etcd/run/etcd.sock")}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	}()
	put := func(key string, value []byte) {
		t.Helper()
		if _, err := store.Commit(t.Context(), controlplane.Txn{Ops: []controlplane.Op{{Key: key, Value: value}}}); err != nil {
			t.Fatal(err)
		}
	}
	for name, bytes := range map[string]int{"long": 100_000, "huge": 1_572_300} {
		key := controlplane.TaskKey("default", c.named(name).ID)
		page, err := store.List(t.Context(), controlplane.ListOptions{Key: key})
		if err != nil || len(page.KVs) != 1 {
			t.Fatalf("%s: %v, %v", key, page, err)
		}
		stop := protowire.AppendTag(nil, reasonOfStop, protowire.BytesType)
		stop = protowire.AppendString(stop, strings.Repeat("r", bytes))
		value := protowire.AppendTag(page.KVs[0].Value, stopOfTask, protowire.BytesType)
		put(key, protowire.AppendBytes(value, stop))
	}
	spec := &types.Spec{Image: image, Mounts: []types.Mount{{Source: "/" + strings.Repeat("a", 530_000), Target: "/x"}}}
	digest := controlplane.SpecDigest(spec)
	put(controlplane.SpecKey("default", digest), types.Encode(1, spec))
	put(controlplane.TaskKey("default", "path-1"), types.Encode(1, &types.Task{Spec: digest, Submitted: time.Now().UnixNano()}))

	if reason := c.reasonOf("path", func(x task) bool { return x.Phase == "failed" }); len(reason) > types.MaxReason {
		t.Errorf("the reason has %d bytes", len(reason))
	}
	c.must("node", "drain", "node-1", "--mode", "move", "--grace", "1s", "--detach")
	if reason := c.reasonOf("long", func(x task) bool { return x.Phase == "cancelled" }); len(reason) != types.MaxReason || !strings.HasPrefix(reason, "rrr") {
		t.Errorf("the reason has %d bytes: %.40s", len(reason), reason)
	}
	c.reasonOf("stays", func(x task) bool { return x.Phase == "running" && x.Node == "node-2" })
	if x := c.escher("run", image, "--", "/bin/program", "echo", "works"); x.code != 0 {
		t.Errorf("it does not work: %s", x.err)
	}
	put(controlplane.TaskKey("default", "late-1"), types.Encode(1, &types.Task{Spec: digest, Submitted: time.Now().UnixNano()}))
}
