package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// follower is an escher logs -f.
type follower struct {
	cmd *exec.Cmd

	mu sync.Mutex
	// out is its output, with its error output, in order.
	out strings.Builder
}

func (f *follower) Write(p []byte) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.out.Write(p)
}

func (v *victim) follow(id string) *follower {
	v.t.Helper()
	f := &follower{cmd: exec.Command(built.escher, append([]string{"logs", "-f", id}, v.flags...)...)}
	f.cmd.Stdout, f.cmd.Stderr = f, f
	if err := f.cmd.Start(); err != nil {
		v.t.Fatal(err)
	}
	v.t.Cleanup(func() { _ = f.cmd.Process.Kill() }) // usually it has ended
	return f
}

// said returns its output.
func (f *follower) said() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.out.String()
}

// chatted returns the numbers of the lines of chat, and of its end; 0 if it has none.
func chatted(text string) (numbers []int, end int) {
	for line := range strings.Lines(text) {
		var n int
		if _, err := fmt.Sscanf(line, "line %d\n", &n); err == nil {
			numbers = append(numbers, n)
		} else if _, err := fmt.Sscanf(line, "end %d\n", &n); err == nil {
			end = n
		} else if strings.HasPrefix(line, "escher: ") && strings.Contains(line, " output ") && len(numbers) > 0 && !strings.Contains(line, "waiting for") {
			numbers = numbers[:len(numbers)-1] // the last line before a gap may be partial
		}
	}
	return numbers, end
}

// gap returns the first line after which one is missing or repeated; 0 if there is none.
func gap(numbers []int) int {
	for i, n := range numbers {
		if n != i+1 {
			return i
		}
	}
	return 0
}

// chatter is a task that writes all the time, with its follower.
type chatter struct {
	*victim
	id string
	f  *follower
}

// goesOn waits until the follower has lines written from now on.
func (c *chatter) goesOn(when string) {
	c.t.Helper()
	path := c.path(c.id)
	text, _ := os.ReadFile(path)
	written, _ := chatted(string(text))
	from := 0
	if len(written) > 0 {
		from = written[len(written)-1]
	}
	if !eventually(func() bool {
		numbers, _ := chatted(c.f.said())
		return len(numbers) > 0 && numbers[len(numbers)-1] > from
	}) {
		numbers, _ := chatted(c.f.said())
		c.t.Fatalf("%s: line %d was written; %d lines are shown\n%+v\n%s", when, from, len(numbers), c.tasks()[c.id], c.about(c.id))
	}
}

// path is the log of the first attempt of a task.
func (v *victim) path(id string) string {
	return filepath.Join(v.dir, "n1/logs/default", id, "1.log")
}

// writes waits until the task has written more than now, with or without an agent.
func (c *chatter) writes(when string) {
	c.t.Helper()
	size := func() int64 {
		info, err := os.Stat(c.path(c.id))
		if err != nil {
			return 0
		}
		return info.Size()
	}
	from := size()
	if !eventually(func() bool { return size() > from }) {
		c.t.Fatalf("%s: it writes no more", when)
	}
}

// TestLogsNeverBlock runs a task that writes all the time, while its agent, its logger and its disk
// are away: it continues, and a follower sees every logged line once.
func TestLogsNeverBlock(t *testing.T) {
	t.Parallel() // it mostly waits
	v := newVictim(t)
	logs := filepath.Join(v.dir, "n1/logs")
	if err := os.MkdirAll(logs, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mount("tmpfs", logs, "tmpfs", 0, "size=4m,mode=700"); err != nil {
		t.Fatal(err)
	}
	c := &chatter{victim: v}
	c.id = v.must("run", "-d", "--name", "chatter", image, "--", "/bin/program", "chat")
	v.must("wait", "--until", "running", c.id)
	c.f = v.follow(c.id)
	c.goesOn("at first")

	v.killAgent()
	c.writes("without an agent")
	v.start()
	c.goesOn("with another agent")
	c.frozenAgent()
	if numbers, _ := chatted(c.f.said()); gap(numbers) != 0 {
		t.Errorf("after line %d there is another one than the next", gap(numbers))
	}
	c.deadLogger()
	c.fullDisk()
	c.ends()
}

// frozenAgent freezes the agent for a moment.
func (c *chatter) frozenAgent() {
	c.t.Helper()
	if err := c.agent.Process.Signal(syscall.SIGSTOP); err != nil {
		c.t.Fatal(err)
	}
	c.writes("with an agent that is frozen")
	after(100 * time.Millisecond)
	if err := c.agent.Process.Signal(syscall.SIGCONT); err != nil {
		c.t.Fatal(err)
	}
	c.goesOn("with an agent that was frozen")
}

// deadLogger kills the logger.
func (c *chatter) deadLogger() {
	c.t.Helper()
	for _, pid := range withCommand("task-log {\"path\":\"" + c.path(c.id)) {
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			c.t.Error(err)
		}
	}
	c.goesOn("with another logger")
	if !strings.Contains(c.f.said(), "was started again") {
		c.t.Error("the log does not say that some may be missing")
	}
}

// fullDisk lets another task fill the disk: neither waits, and losses are reported once there is
// space again.
func (c *chatter) fullDisk() {
	c.t.Helper()
	flood := c.must("run", "-d", "--name", "flood", image, "--", "/bin/program", "flood", "30")
	c.must("wait", "--timeout", "1m", flood)
	after(time.Second) // the last page of its log takes half of that to fill
	if x := c.tasks()[c.id]; x.Phase != "running" {
		c.t.Fatalf("on a full disk: %+v", x)
	}
	if err := os.Remove(c.path(flood)); err != nil {
		c.t.Error(err)
	}
	c.goesOn("with room again")
	if text := c.f.said(); !strings.Contains(text, "bytes of output lost: no space left on device") {
		c.t.Errorf("the log does not say what is lost; it ends with: %s", text[max(0, len(text)-200):])
	}
}

// ends stops the task: the follower ends with its exit code, and has each line once.
func (c *chatter) ends() {
	c.t.Helper()
	c.must("stop", c.id)
	err := c.f.cmd.Wait()
	numbers, end := chatted(c.f.said())
	for i := range numbers[1:] {
		if numbers[i] >= numbers[i+1] {
			c.t.Fatalf("line %d comes after line %d", numbers[i+1], numbers[i])
		}
	}
	if end == 0 || numbers[len(numbers)-1] != end {
		c.t.Errorf("the last line is %d, and its end says %d", numbers[len(numbers)-1], end)
	}
	c.t.Logf("%d of %d lines, %v", len(numbers), end, err)
}
