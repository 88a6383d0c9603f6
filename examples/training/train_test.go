// Package training_test tries the programs of this example without a cluster: ranks are processes of
// this machine, with the environment that Escher gives to the members of a gang.
package training_test

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// python is that of Debian, which finds the numpy of Debian: deploy/deps.sh test installs both.
const python = "/usr/bin/python3"

// TestProgramsCompile: the programs and scripts of the examples have no errors of syntax.
func TestProgramsCompile(t *testing.T) {
	for pattern, check := range map[string][]string{
		"../*/*.py": {python, "-c", "import sys; compile(open(sys.argv[1]).read(), sys.argv[1], 'exec')"},
		"../*/*.sh": {"bash", "-n"},
	} {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) < 2 {
			t.Fatalf("%s: %v, %v", pattern, files, err)
		}
		for _, file := range files {
			cmd := exec.CommandContext(t.Context(), check[0], append(check[1:], file)...)
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("%s: %v\n%s", file, err, out)
			}
		}
	}
}

// small makes the training a matter of a second.
const small = "import os, signal, train; train.STEPS, train.POINTS, train.SAVE_EVERY = 100, 200, 40\n"

// These disturb a rank at a moment that is the same each time.
const (
	// killed ends it within an all-reduce of step 50, of six receipts each; the first all-reduce is
	// that of the state.
	killed = `
receive, calls = train.Ring.receive, 0
def counted(self, size):
    global calls
    calls += 1
    if calls == 6 * 50 + 3: os.kill(os.getpid(), signal.SIGKILL)
    return receive(self, size)
train.Ring.receive = counted
`
	// killedSaving ends it when a part of a checkpoint is written.
	killedSaving = `
save = train.np.save
def part(file, state):
    save(file, state[:100])
    file.flush()
    os.kill(os.getpid(), signal.SIGKILL)
train.np.save = part
`
	// warned sends it the signal in its tenth step, and ends it a few steps later.
	warned = `
gradient, calls = train.gradient, 0
def counted(*a):
    global calls
    calls += 1
    if calls == 10: os.kill(os.getpid(), signal.SIGUSR1)
    if calls == 16: os.kill(os.getpid(), signal.SIGTERM)
    return gradient(*a)
train.gradient = counted
`
)

// ranks runs an attempt of a training, and returns what rank 0 printed, and how many ranks failed.
func ranks(t *testing.T, n, attempt int, dir string, disturbed map[int]string) (said string, failed int) {
	t.Helper()
	var peers []string
	var doors []net.Listener
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		peers, doors = append(peers, l.Addr().String()), append(doors, l)
	}
	for _, l := range doors {
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
	}
	var first bytes.Buffer
	var all []*exec.Cmd
	for i := range n {
		cmd := exec.CommandContext(t.Context(), python, "-c", small+disturbed[i]+"train.main()", dir)
		cmd.Env = append(os.Environ(), "PYTHONDONTWRITEBYTECODE=1", fmt.Sprint("ESCHER_ATTEMPT=", attempt))
		if n > 1 {
			cmd.Env = append(cmd.Env, fmt.Sprint("ESCHER_INDEX=", i), "ESCHER_PEERS="+strings.Join(peers, ","))
		}
		if i == 0 {
			cmd.Stdout, cmd.Stderr = &first, &first
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		all = append(all, cmd)
	}
	for _, cmd := range all {
		if cmd.Wait() != nil {
			failed++
		}
	}
	return first.String(), failed
}

// TestDisturbedTraining: a training of which ranks are killed and warned ends with the loss of an
// undisturbed one by one rank.
func TestDisturbedTraining(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	gang, alone := filepath.Join(dir, "gang"), filepath.Join(dir, "alone")
	for i, a := range []struct {
		disturbed map[int]string
		failed    int
		says      string
	}{
		{map[int]string{2: killed}, 4, "from step 0\nstep 40: "},
		{map[int]string{0: killedSaving}, 4, "from step 40\n"},
		{map[int]string{3: warned}, 4, "from step 40\nstep 50: loss 0.373331, saved, as it was warned\n"},
		{nil, 0, "from step 50\n"},
		{nil, 0, "from step 100\n"}, // where there is nothing left to do
	} {
		said, failed := ranks(t, 4, i+1, gang, a.disturbed)
		if failed != a.failed || !strings.Contains(said, a.says) {
			t.Errorf("attempt %d: %d ranks failed; rank 0 says\n%s\nwant %d, and %q", i+1, failed, said, a.failed, a.says)
		}
	}
	if said, failed := ranks(t, 1, 1, alone, nil); failed > 0 {
		t.Fatalf("one rank alone fails:\n%s", said)
	}
	event := `{"time": 0, "what": "<killed>"}`
	if err := os.WriteFile(filepath.Join(gang, "events.jsonl"), []byte(event), 0o600); err != nil {
		t.Fatal(err)
	}
	compare(t, gang, alone, true)
	compare(t, gang, gang, true)
	text, err := os.ReadFile(filepath.Join(alone, "loss.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	// Another loss at the end is one that differs by more than rounding does.
	text = fmt.Appendf(text, "%s\n", `{"step": 100, "loss": 0.27}`)
	if err := os.WriteFile(filepath.Join(alone, "loss.jsonl"), text, 0o600); err != nil {
		t.Fatal(err)
	}
	compare(t, gang, alone, false)
}

// compare runs the program, which says whether the losses at the end are the same, and draws them.
func compare(t *testing.T, gang, alone string, same bool) {
	t.Helper()
	plot := filepath.Join(t.TempDir(), "loss.svg")
	out, err := exec.CommandContext(t.Context(), python, "compare.py", gang, alone, plot).CombinedOutput()
	if (err == nil) != same {
		t.Errorf("compare: %v\n%s", err, out)
	}
	if svg, err := os.ReadFile(plot); err != nil || !strings.Contains(string(svg), "&lt;killed&gt;") {
		t.Errorf("the plot: %v\n%s", err, svg)
	}
}
