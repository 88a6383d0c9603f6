package hfs

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/escher-sched/escher/e2e/bench/rig"
	"github.com/escher-sched/escher/e2e/bench/rigtest"
)

// TestHFS runs the experiment on a small cluster at twelve times its speed: the shares follow, the
// cluster is full, and there is a picture. The accuracy means little at that speed on a busy
// machine.
func TestHFS(t *testing.T) {
	t.Parallel()
	cfg := rigtest.Config(t)
	cfg.Scenario, cfg.Nodes, cfg.Speed, cfg.Plot = "hfs", 4, 12, filepath.Join(t.TempDir(), "hfs.svg")
	rows, err := rig.Measure(t.Context(), cfg, Scenarios()[0])
	if err != nil {
		t.Fatal(err)
	}
	r := rows[0]
	if r.Scenario != "hfs" || r.Violations != 0 || r.Value <= 0 || r.Value > 100 || r.Details["utilisation"] <= 0 || r.Details["utilisation"] > 1 {
		t.Errorf("got %+v", r)
	}
	picture, err := os.ReadFile(cfg.Plot)
	if err != nil {
		t.Fatal(err)
	}
	wellFormed(t, picture)
}

func wellFormed(t *testing.T, text []byte) {
	t.Helper()
	for d := xml.NewDecoder(bytes.NewReader(text)); ; {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			return
		} else if err != nil {
			t.Fatalf("the picture: %v", err)
		}
	}
}

// TestHFSWorst finds a user off the fair share, but only when it counts.
func TestHFSWorst(t *testing.T) {
	s := &usageSeries{users: teamUsers(), cores: 100}
	for at := time.Duration(0); at < 3*phaseLasts; at += sampleEvery {
		p := usagePoint{at: at, held: make([]float64, 3), used: 99}
		phase := int(at / phaseLasts)
		for i, u := range s.users {
			p.held[i] = u.parts[phase] * 100
		}
		if at%phaseLasts < settlesWithin {
			p.held[0] = 1 // not settled yet
		}
		if at >= 150*time.Second && at < 151*time.Second {
			p.held[2] = 24
		}
		s.points.add(p)
	}
	if got := s.worst(); got < 3.99 || got > 4.01 {
		t.Errorf("%g %% off, want 4: 24 of 25", got)
	}
	if got := s.used(); got != 0.99 {
		t.Errorf("%g used", got)
	}
}
