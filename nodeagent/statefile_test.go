package nodeagent_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/escher-sched/escher/nodeagent/runtime/simruntime"
	"github.com/escher-sched/escher/types"
)

// TestStateOfOtherVersions resumes the session of an agent of another version: a newer one, whose
// file has more, or an older one, whose file has less.
func TestStateOfOtherVersions(t *testing.T) {
	for name, edit := range map[string]func(map[string]any){
		"newer": func(s map[string]any) {
			s["later"], s["more"] = map[string]any{"x": []int{1}}, "y"
		},
		"older": func(s map[string]any) {
			for field := range s {
				switch field {
				case "lease", "epoch", "revision", "deadline", "bootID":
				default:
					delete(s, field)
				}
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, simruntime.Config{}, func(t *testing.T, b *bench) {
				session := b.session()
				id := b.bind("a")
				synctest.Wait()
				b.crash()
				path := filepath.Join(b.cfg.StateDir, "session.json")
				text, err := os.ReadFile(path)
				if err != nil {
					t.Fatal(err)
				}
				state := make(map[string]any)
				if err := json.Unmarshal(text, &state); err != nil {
					t.Fatal(err)
				}
				edit(state)
				if text, err = json.Marshal(state); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(path, text, 0o600); err != nil {
					t.Fatal(err)
				}
				b.start()
				b.pass(time.Second)
				if now := b.session(); now != session {
					t.Errorf("session %d became %d", session, now)
				}
				b.expect("a", types.ReportRunning)
				if n := b.runtime.Runs()[id]; n != 1 {
					t.Errorf("it ran %d times", n)
				}
			})
		})
	}
}
