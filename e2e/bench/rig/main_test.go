package rig

import (
	"context"
	"fmt"
	"os"
	"testing"

	"go.uber.org/zap"
)

// TestMain lets the test binary run the parts of clusters.
func TestMain(m *testing.M) {
	if len(os.Args) == 3 && os.Args[1] == RoleCommand {
		if err := RunRole(context.Background(), os.Args[2], os.Stdin, os.Stdout, nil); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// testConfig is a configuration for a small cluster on a disk.
func testConfig(t *testing.T) Config {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("/var/tmp", "escher-bench-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return Config{
		Escher: self, Self: self, Dir: dir, Nodes: 100, Tasks: 1000, Rounds: 1, Ops: StockOps,
		Progress: t.Output(), Log: zap.NewNop(), progress: newProgress(t.Output(), 0), Label: "test",
	}
}
