package runtimetest

import (
	"context"
	"syscall"
	"time"

	"github.com/escher-sched/escher/nodeagent"
	"github.com/escher-sched/escher/types"
)

func endTests() []namedTest {
	return []namedTest{
		{"ExitCode", testExitCode},
		{"ExitIsReadableUntilRemove", testExitStays},
		{"WaitEndsWithItsContext", testWaitEndsWithItsContext},
		{"WaitForNothing", testWaitForNothing},
		{"SignalIsDelivered", testSignalIsDelivered},
		{"KillCannotBeRefused", testKill},
		{"SignalAfterTheEnd", testSignalAfterTheEnd},
		{"RemoveKills", testRemoveKills},
		{"RemoveEndsWait", testRemoveEndsWait},
		{"RemoveTwice", testRemoveTwice},
		{"StartAfterRemove", testStartAfterRemove},
	}
}

func testExitCode(s *suite) {
	for _, want := range []struct {
		arg  string
		code int
	}{{"0", 0}, {"7", 7}, {"255", 255}} {
		before := time.Now().Add(-time.Second)
		c := s.start("exit", want.arg)
		exit := s.wait(c.ID)
		if exit.Code != want.code || exit.OOMKilled || exit.Reason != "" {
			s.Errorf("exit %+v, want code %d", exit, want.code)
		}
		if exit.At.Before(before) || exit.At.After(time.Now()) {
			s.Errorf("ended %s, want about now", exit.At)
		}
	}
}

func testExitStays(s *suite) {
	c := s.start("exit", "6")
	first := s.wait(c.ID)
	if again := s.wait(c.ID); again.Code != 6 || !again.At.Equal(first.At) {
		s.Errorf("exit %+v, then %+v", first, again)
	}
	seen := s.find(s.Runtime, c.ID)
	if seen == nil || seen.Running || seen.Exit == nil || seen.Exit.Code != 6 || !seen.Exit.At.Equal(first.At) {
		s.Errorf("listed as %+v, want the exit of Wait", seen)
	}
	s.must(s.Remove(s.ctx(), c.ID))
	s.nothingLeft(c.ID)
}

func testWaitEndsWithItsContext(s *suite) {
	c := s.start("block")
	ctx, cancel := context.WithTimeout(s.ctx(), 20*time.Millisecond)
	defer cancel()
	_, err := s.Wait(ctx, c.ID)
	s.wants(err, types.Unavailable)
	if seen := s.find(s.Runtime, c.ID); seen == nil || !seen.Running {
		s.Errorf("listed as %+v, want it running", seen)
	}
}

func testWaitForNothing(s *suite) {
	_, err := s.Wait(s.ctx(), s.Cluster+"-none")
	s.wants(err, types.NotFound)
	s.wants(s.Signal(s.ctx(), s.Cluster+"-none", syscall.SIGTERM), types.NotFound)
}

func testSignalIsDelivered(s *suite) {
	c := s.start("block")
	if exit := s.terminate(c); exit.Code != 0 {
		s.Errorf("exit code %d, want that of the program", exit.Code)
	}
}

func testKill(s *suite) {
	c := s.start("deaf")
	s.Ready(s.T, c)
	s.must(s.Signal(s.ctx(), c.ID, syscall.SIGTERM))
	s.must(s.Signal(s.ctx(), c.ID, syscall.SIGKILL))
	exit := s.wait(c.ID)
	if exit.Code != 128+int(syscall.SIGKILL) || exit.OOMKilled {
		s.Errorf("exit %+v, want code 137 and not for lack of memory", exit)
	}
}

func testSignalAfterTheEnd(s *suite) {
	c := s.start("exit", "0")
	s.wait(c.ID)
	s.must(s.Signal(s.ctx(), c.ID, syscall.SIGTERM))
	s.must(s.Signal(s.ctx(), c.ID, syscall.SIGKILL))
}

func testRemoveKills(s *suite) {
	c := s.start("deaf")
	s.must(s.Remove(s.ctx(), c.ID))
	s.nothingLeft(c.ID)
	s.wants(s.Signal(s.ctx(), c.ID, syscall.SIGKILL), types.NotFound)
}

func testRemoveEndsWait(s *suite) {
	c := s.start("deaf")
	type answer struct {
		exit nodeagent.Exit
		err  error
	}
	got := make(chan answer, 1)
	ctx := s.ctx()
	go func() {
		exit, err := s.Wait(ctx, c.ID)
		got <- answer{exit, err}
	}()
	s.must(s.Remove(s.ctx(), c.ID))
	a := <-got
	if a.err == nil && a.exit.Code != 137 {
		s.Errorf("exit %+v, want code 137", a.exit)
	}
	if a.err != nil {
		s.wants(a.err, types.NotFound)
	}
}

func testRemoveTwice(s *suite) {
	s.must(s.Remove(s.ctx(), s.Cluster+"-none"))
	c := s.start("exit", "0")
	s.must(s.Remove(s.ctx(), c.ID))
	s.must(s.Remove(s.ctx(), c.ID))
}

func testStartAfterRemove(s *suite) {
	c := s.start("exit", "1")
	s.wait(c.ID)
	s.must(s.Remove(s.ctx(), c.ID))
	c.Command = []string{Program, "exit", "2"}
	s.must(s.Start(s.ctx(), c))
	if exit := s.wait(c.ID); exit.Code != 2 {
		s.Errorf("exit code %d, want that of the new container", exit.Code)
	}
}
