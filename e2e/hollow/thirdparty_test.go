package hollow_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/controlplane/etcdstore"
	"github.com/escher-sched/escher/controlplane/server/etcdtest"
	"github.com/escher-sched/escher/e2e/hollow"
	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/esl/builtin"
	"github.com/escher-sched/escher/types"
)

// TestSomebodyElses builds the program of docs/writing-a-policy.md, a module of its own, and runs
// it next to a cluster that does not know its policy. A job that names the policy waits, and says
// for what, until the program runs.
func TestSomebodyElses(t *testing.T) {
	night := filepath.Join(t.TempDir(), "night")
	build := exec.Command("go", "build", "-mod=readonly", "-ldflags=-s -w", "-o", night, ".")
	build.Dir = "../../examples/night"
	build.Env = append(os.Environ(), "GOPROXY=off")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: bring its go.mod up to date with go vet -mod=mod:\n%s", err, out)
	}
	etcd := etcdtest.Start(t)
	c, jobs := start(t, hollow.Config{Nodes: hollow.Nodes(1, 4), Store: etcdstore.New(etcd.Client, etcdstore.ServerLimits())})
	submit := func(id, with string) string {
		t.Helper()
		done, err := jobs.Submit(t.Context(), controlplane.Job{ID: id, Tasks: esl.Copies(1, hollow.Task(1000))}, esl.Foreign{Name: "acme.com/night", With: with})
		if err != nil {
			t.Fatal(err)
		}
		return done.Tasks[0]
	}
	always, never := submit("always", `{"from":0,"until":24}`), submit("never", `{"from":0,"until":0}`)
	why := func(task string) string {
		t.Helper()
		v, err := c.View(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return fmt.Sprint(esl.Why(v, builtin.Kinds(), cluster.ID{Namespace: "d", ID: task}, time.Now()))
	}
	if got := why(always); !strings.Contains(got, "start the program, unless it runs") {
		t.Errorf("it says %q", got)
	}
	program := exec.Command(night)
	program.Env = append(os.Environ(), etcdstore.EnvEndpoints+"="+etcd.Endpoint)
	var said bytes.Buffer
	program.Stderr = &said
	if err := program.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- program.Wait() }()
	if _, err := c.Await(t.Context(), func(v *cluster.View) bool {
		closed := v.Pool(types.Resolve("d", "never.night"))
		return hollow.Running(v, "d")[always] != "" && closed != nil && closed.Capacity() == 0
	}); err != nil {
		t.Fatal(err)
	}
	if err := program.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err != nil {
		t.Errorf("the program ended with %v\n%s", err, &said)
	}
	if got := why(never); got != "[]" {
		t.Errorf("of what is closed it says %q", got)
	}
	for _, task := range []string{always, never} {
		if err := jobs.Stop(t.Context(), task, controlplane.StopOptions{Reason: "enough"}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := jobs.Wait(t.Context(), controlplane.UntilEnded, always, never); err != nil {
		t.Fatal(err)
	}
	// The resources of the policies go with their jobs, a second or two later.
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	if _, err := c.Await(ctx, func(v *cluster.View) bool {
		return len(v.Policies) == 0 && v.Pool(types.Resolve("d", "never.night")) == nil && v.Pool(types.Resolve("d", "always.night")) == nil
	}); err != nil {
		t.Error(err)
	}
	if err := c.Audit(ctx); err != nil {
		t.Error(err)
	}
}

// TestGuideTests runs the tests of a policy that docs/writing-a-policy.md shows.
func TestGuideTests(t *testing.T) {
	test := exec.Command("go", "test", "-mod=readonly", ".")
	test.Dir = "../../examples/night"
	test.Env = append(os.Environ(), "GOPROXY=off")
	if out, err := test.CombinedOutput(); err != nil {
		t.Fatalf("%v: bring its go.mod up to date with go vet -mod=mod:\n%s", err, out)
	}
}

// TestGuideIsTheProgram: docs/writing-a-policy.md shows the tested program and its tests, and counts
// the lines of the program.
func TestGuideIsTheProgram(t *testing.T) {
	program, err := os.ReadFile("../../examples/night/main.go")
	if err != nil {
		t.Fatal(err)
	}
	guide, err := os.ReadFile("../../docs/writing-a-policy.md")
	if err != nil {
		t.Fatal(err)
	}
	_, policy, _ := strings.Cut(string(program), "// Night lets")
	policy, main, _ := strings.Cut("// Night lets"+policy, "func main()")
	tests, err := os.ReadFile("../../examples/night/main_test.go")
	if err != nil {
		t.Fatal(err)
	}
	_, tested, _ := strings.Cut(string(tests), "// TestNext asks")
	for _, part := range []string{strings.TrimSpace(policy), strings.TrimSpace("func main()" + main), strings.TrimSpace("// TestNext asks" + tested)} {
		if !strings.Contains(string(guide), "```go\n"+part+"\n```") {
			t.Errorf("the guide does not show:\n%s", part)
		}
	}
	lines := 0
	for line := range strings.Lines(string(program)) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "//") {
			lines++
		}
	}
	if want := fmt.Sprintf("%d lines", lines); lines > 50 || !strings.Contains(string(guide), want) {
		t.Errorf("it has %d lines, and the guide does not say so", lines)
	}
}
