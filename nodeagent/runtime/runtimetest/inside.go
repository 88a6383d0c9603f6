package runtimetest

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/escher-sched/escher/nodeagent"
	"github.com/escher-sched/escher/types"
)

func insideTests() []namedTest {
	return []namedTest{
		{"RestartIsListed", testRestartIsListed},
		{"ImageByDigest", testImageByDigest},
		{"StopSignal", testStopSignal},
		{"NoSuchSignal", testNoSuchSignal},
		{"Exec", testExec},
		{"ExecIsKilled", testExecIsKilled},
		{"ExecNeedsAContainerThatRuns", testExecNeedsOne},
		{"Root", testRoot},
		{"UsageIsOfThoseThatRun", testUsage},
	}
}

func testRestartIsListed(s *suite) {
	for restart := range 3 {
		c := s.container("block")
		c.Restart = restart
		s.must(s.Start(s.ctx(), c))
		if seen := s.find(s.Open(s.T, s.node), c.ID); seen == nil || seen.Restart != restart {
			s.Errorf("listed as %+v, want restart %d", seen, restart)
		}
	}
}

func testImageByDigest(s *suite) {
	c := s.container("exit", "0")
	started, err := s.Runtime.Start(s.ctx(), c)
	s.must(err)
	if name, _, ok := strings.Cut(started.Image, "@sha256:"); !ok || name != strings.Split(Image, ":")[0] {
		s.Errorf("started %q, want %s by digest", started.Image, Image)
	}
	if seen := s.find(s.Open(s.T, s.node), c.ID); seen == nil || seen.Image != started.Image {
		s.Errorf("listed as %+v, want image %s", seen, started.Image)
	}
	again := s.container("exit", "0")
	again.Image = started.Image
	pinned, err := s.Runtime.Start(s.ctx(), again)
	s.must(err)
	repeated, err := s.Runtime.Start(s.ctx(), c)
	s.must(err)
	if pinned != started || repeated != started {
		s.Errorf("started %v, by its digest %v, again %v; want the same", started, pinned, repeated)
	}
}

func testStopSignal(s *suite) {
	for verb, signal := range map[string]string{"usr1": "SIGUSR1", "block": ""} {
		c := s.container(verb)
		c.StopSignal = signal
		s.must(s.Start(s.ctx(), c))
		s.Ready(s.T, c)
		// A restarted agent can also stop it.
		s.must(s.Open(s.T, s.node).Signal(s.ctx(), c.ID, nodeagent.StopSignal))
		if exit := s.wait(c.ID); exit.Code != 0 {
			s.Errorf("%s: exit %+v, want that of the program", verb, exit)
		}
		s.must(s.Signal(s.ctx(), c.ID, nodeagent.StopSignal))
	}
	s.wants(s.Signal(s.ctx(), s.Cluster+"-none", nodeagent.StopSignal), types.NotFound)
}

func testNoSuchSignal(s *suite) {
	c := s.container("exit", "0")
	c.StopSignal = "SIGNONE"
	s.wants(s.Start(s.ctx(), c), types.Invalid)
	s.nothingLeft(c.ID)
}

// exec runs a verb of the test program in a container.
func (s *suite) exec(ctx context.Context, id string, verb ...string) (int, error) {
	return s.Exec(ctx, id, nodeagent.Process{Command: append([]string{Program}, verb...)})
}

func testExec(s *suite) {
	c := s.start("block")
	started := 0
	code, err := s.Exec(s.ctx(), c.ID, nodeagent.Process{Command: []string{Program, "exit", "6"}, Started: func() { started++ }})
	s.must(err)
	if code != 6 || started != 1 {
		s.Errorf("code %d, want 6; told %d times that it runs", code, started)
	}
	_, err = s.Exec(s.ctx(), c.ID, nodeagent.Process{Command: []string{"/bin/there-is-none"}})
	s.wants(err, types.NotFound)
	if seen := s.find(s.Runtime, c.ID); seen == nil || !seen.Running {
		s.Errorf("listed as %+v, want it to run on", seen)
	}
}

func testExecIsKilled(s *suite) {
	c := s.start("block")
	s.Ready(s.T, c)
	ctx, cancel := context.WithCancel(s.ctx())
	ended := make(chan error, 1)
	go func() {
		_, err := s.exec(ctx, c.ID, "deaf")
		ended <- err
	}()
	cancel()
	s.wants(<-ended, types.Unavailable)
	if exit := s.terminate(c); exit.Code != 0 {
		s.Errorf("exit %+v, want that of the program", exit)
	}
}

func testExecNeedsOne(s *suite) {
	_, err := s.exec(s.ctx(), s.Cluster+"-none", "exit", "0")
	s.wants(err, types.NotFound)
	_, err = s.Root(s.ctx(), s.Cluster+"-none")
	s.wants(err, types.NotFound)
	c := s.start("exit", "0")
	s.wait(c.ID)
	_, err = s.exec(s.ctx(), c.ID, "exit", "0")
	s.wants(err, types.Precondition)
	_, err = s.Root(s.ctx(), c.ID)
	s.wants(err, types.Precondition)
}

func testRoot(s *suite) {
	c := s.start("block")
	root, err := s.Root(s.ctx(), c.ID)
	s.must(err)
	if _, err := os.Stat(filepath.Join(root, Program)); err != nil {
		s.Errorf("its files are not there: %v", err)
	}
}

func testUsage(s *suite) {
	running, ended := s.start("block"), s.start("exit", "0")
	s.wait(ended.ID)
	used, err := s.Usage(s.ctx(), running.ID)
	s.must(err)
	if used.Processes == nil || *used.Processes < 1 || used.CPU == nil || used.Memory == nil {
		s.Errorf("uses %+v, want processor time, memory and a process", used)
	}
	_, err = s.Usage(s.ctx(), ended.ID)
	s.wants(err, types.NotFound)
	_, err = s.Usage(s.ctx(), s.Cluster+"-none")
	s.wants(err, types.NotFound)
	s.must(s.Signal(s.ctx(), running.ID, syscall.SIGKILL))
}
