// Package rigtest helps tests that measure clusters of package rig.
package rigtest

import (
	"context"
	"fmt"
	"os"
	"testing"

	"go.uber.org/zap"

	"github.com/escher-sched/escher/e2e/bench/rig"
)

// Main runs the tests of a package. In a process that such a test started, it runs a part of a
// cluster instead; parts are those beyond the ones that rig has.
func Main(m *testing.M, parts rig.Parts) {
	if len(os.Args) == 3 && os.Args[1] == rig.RoleCommand {
		if err := rig.RunRole(context.Background(), os.Args[2], os.Stdin, os.Stdout, parts); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// Config returns a configuration for a small cluster on a disk.
func Config(t *testing.T) rig.Config {
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
	cfg, end := rig.Config{
		Escher: self, Self: self, Dir: dir, Nodes: 100, Tasks: 1000, Rounds: 1, Ops: rig.StockOps,
		Progress: t.Output(), Log: zap.NewNop(), Label: "test",
	}.WithProgress()
	t.Cleanup(end)
	return cfg
}
