package rig

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/types"
)

// TestPartEndsWithItsInput: a part ends with its parent process, however that ended.
func TestPartEndsWithItsInput(t *testing.T) {
	p, err := Launch(testConfig(t), RoleEtcd, RoleEtcd, RoleConfig{Dir: t.TempDir(), Ops: StockOps})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := p.in.Close(); err != nil {
		t.Fatal(err)
	}
	<-p.ended
}

// TestLostPart expects the reason when a part ends unexpectedly.
func TestLostPart(t *testing.T) {
	_, err := OnCluster(t.Context(), testConfig(t), func(ctx context.Context, c *Cluster, _ Figures) error {
		p, err := c.StartScheduler("lost", false)
		if err != nil {
			return err
		}
		if err := p.cmd.Process.Kill(); err != nil {
			return err
		}
		<-ctx.Done()
		return ctx.Err()
	})
	if err == nil || !strings.Contains(err.Error(), "lost ended") {
		t.Errorf("got %v", err)
	}
}

// TestKilledPart expects no failure from a deliberately killed part, and that its figures are gone
// with it.
func TestKilledPart(t *testing.T) {
	_, err := OnCluster(t.Context(), testConfig(t), func(ctx context.Context, c *Cluster, _ Figures) error {
		p, err := c.StartScheduler("killed", false)
		if err != nil {
			return err
		}
		if _, most, err := p.memory(); err != nil || most < 1<<20 {
			t.Errorf("memory %d, %v", most, err)
		}
		if stats, err := p.Stats(ctx); err != nil || stats[CounterMetric+"waiting"] != 0 || len(stats) < 5 {
			t.Errorf("counted %v, %v", stats, err)
		}
		c.End(p, true)
		if len(c.processes) != 1 {
			t.Errorf("%d processes are left", len(c.processes))
		}
		if _, err := p.cpu(); err == nil {
			t.Error("it has a processor time")
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// TestUnheardReply asks a part whose ready reply was not read.
func TestUnheardReply(t *testing.T) {
	_, err := OnCluster(t.Context(), testConfig(t), func(ctx context.Context, c *Cluster, _ Figures) error {
		p, err := c.launchScheduler("unheard", false)
		if err != nil {
			return err
		}
		for {
			stats, err := p.Stats(ctx)
			if err != nil || len(stats) == 0 {
				t.Errorf("counted %v", stats)
				return err
			}
			if stats[CounterMetric+"wakeups_total"] > 0 { // it was ready before that
				return nil
			}
		}
	})
	if err != nil {
		t.Error(err)
	}
}

// TestPartSaysWhy expects the part's last output in the error.
func TestPartSaysWhy(t *testing.T) {
	cfg := testConfig(t)
	p, err := Launch(cfg, "none", "none", RoleConfig{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.Ready(t.Context()); err == nil || !strings.Contains(err.Error(), `"none" is unknown`) {
		t.Errorf("got %v", err)
	}
	cfg.Self = filepath.Join(cfg.Dir, "nothing")
	if _, err := Launch(cfg, RoleEtcd, RoleEtcd, RoleConfig{}); !types.Is(err, types.Precondition) {
		t.Errorf("got %v", err)
	}
}

// TestRoleWithoutConfiguration checks the error when a user calls the command.
func TestRoleWithoutConfiguration(t *testing.T) {
	for _, in := range []string{"", "{\n"} {
		err := RunRole(t.Context(), RoleEtcd, strings.NewReader(in), new(bytes.Buffer), nil)
		if !types.Is(err, types.Invalid) || !strings.HasPrefix(err.Error(), "bench-role: ") {
			t.Errorf("of %q got %v", in, err)
		}
	}
}

// TestProfile expects a profile of each process, and only while a window is open.
func TestProfile(t *testing.T) {
	cfg := testConfig(t)
	cfg.Scenario, cfg.Profile = "s", filepath.Join(t.TempDir(), "profiles")
	_, err := OnCluster(t.Context(), cfg, func(ctx context.Context, c *Cluster, found Figures) error {
		if _, err := c.StartScheduler(RoleScheduler, false); err != nil {
			return err
		}
		u, err := c.Window(ctx, func(ctx context.Context) error {
			_, err := c.Put(ctx, controlplane.NodeKey("a"), &types.Node{})
			return err
		})
		if err != nil {
			return err
		}
		for _, name := range []string{RoleEtcd, RoleScheduler, load} {
			if u.CPU[name] <= 0 {
				t.Errorf("%s took %s", name, u.CPU[name])
			}
			if info, err := os.Stat(filepath.Join(cfg.Profile, "s.test."+name+".prof")); err != nil || info.Size() == 0 {
				t.Errorf("no profile of %s: %v", name, err)
			}
		}
		return c.AddUsage(found, u, 1)
	})
	if err != nil {
		t.Error(err)
	}
}

// TestSleepEnds: a wait ends with its context, and returns the cause.
func TestSleepEnds(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(os.ErrDeadlineExceeded)
	if err := Sleep(ctx, time.Hour); err != os.ErrDeadlineExceeded {
		t.Errorf("got %v", err)
	}
}
