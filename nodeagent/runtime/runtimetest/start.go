package runtimetest

import (
	"context"
	"sync"
	"time"

	"github.com/escher-sched/escher/types"
)

func testStartIsListed(s *suite) {
	before := time.Now().Add(-time.Second)
	c := s.start("block")
	seen := s.find(s.Runtime, c.ID)
	if seen == nil {
		s.Fatal("it is not listed")
	}
	if seen.Attempt != c.Attempt {
		s.Errorf("attempt is %+v, want %+v", seen.Attempt, c.Attempt)
	}
	if !seen.Running || seen.Exit != nil {
		s.Errorf("running %v, exit %v; want it running", seen.Running, seen.Exit)
	}
	if seen.Started.Before(before) || seen.Started.After(time.Now()) {
		s.Errorf("started %s, want about now", seen.Started)
	}
}

// testStartAsksLast tests that a container runs only once MayStart allows it.
func testStartAsksLast(s *suite) {
	c := s.container("block")
	asked := 0
	c.MayStart = func() error {
		asked++
		return types.Errorf(types.Unavailable, "not now")
	}
	s.wants(s.Start(s.ctx(), c), types.Unavailable)
	if o := s.find(s.Runtime, c.ID); o != nil && (o.Running || o.Exit != nil) {
		s.Errorf("it may not be started, and is %+v", o)
	}
	c.MayStart = func() error {
		asked++
		return nil
	}
	s.must(s.Start(s.ctx(), c))
	if exit := s.terminate(c); exit.Code != 0 || asked != 2 {
		s.Errorf("asked %d times, exit code %d", asked, exit.Code)
	}
}

func testStartRunsOnce(s *suite) {
	c := s.start("block")
	again := c
	again.Command = []string{Program, "exit", "9"}
	s.must(s.Start(s.ctx(), again))
	if exit := s.terminate(c); exit.Code != 0 {
		s.Errorf("exit code %d: the second start did something", exit.Code)
	}
}

func testStartAfterTheEnd(s *suite) {
	c := s.start("exit", "3")
	first := s.wait(c.ID)
	s.must(s.Start(s.ctx(), c))
	if again := s.wait(c.ID); !again.At.Equal(first.At) || again.Code != 3 {
		s.Errorf("exit %+v after another start, want %+v", again, first)
	}
}

func testStartTogether(s *suite) {
	c := s.container("block")
	ctx := s.ctx()
	errs := make([]error, 4)
	var all sync.WaitGroup
	for i := range errs {
		all.Go(func() { errs[i] = s.Start(ctx, c) })
	}
	all.Wait()
	for _, err := range errs {
		if err != nil {
			s.Error(err)
		}
	}
	if seen := s.find(s.Runtime, c.ID); seen == nil || !seen.Running {
		s.Errorf("listed as %+v, want it running", seen)
	}
}

func testStartMany(s *suite) {
	ctx := s.ctx()
	var all sync.WaitGroup
	for code := range 6 {
		c := s.container("exit", string(rune('0'+code)))
		all.Go(func() {
			if err := s.Start(ctx, c); err != nil {
				s.Error(err)
				return
			}
			if exit, err := s.Wait(ctx, c.ID); err != nil || exit.Code != code {
				s.Errorf("exit %+v, %v; want code %d", exit, err, code)
			}
		})
	}
	all.Wait()
}

func testStartWithoutTime(s *suite) {
	c := s.container("exit", "4")
	ctx, cancel := context.WithCancel(s.ctx())
	cancel()
	s.wants(s.Start(ctx, c), types.Unavailable)
	s.must(s.Start(s.ctx(), c))
	if exit := s.wait(c.ID); exit.Code != 4 {
		s.Errorf("exit code %d, want 4", exit.Code)
	}
}

func testNoSuchImage(s *suite) {
	c := s.container("exit", "0")
	c.Image = "escher.local/there-is-none:latest"
	s.wants(s.Start(s.ctx(), c), types.NotFound)
	s.nothingLeft(c.ID)
	c.Image = Image
	s.must(s.Start(s.ctx(), c))
}

func testNoSuchCommand(s *suite) {
	for _, command := range []string{"/bin/there-is-none", "there-is-none"} {
		c := s.container()
		c.Command = []string{command}
		s.wants(s.Start(s.ctx(), c), types.NotFound, types.Invalid)
		s.nothingLeft(c.ID)
		c.Command = []string{Program, "exit", "5"}
		s.must(s.Start(s.ctx(), c))
		if exit := s.wait(c.ID); exit.Code != 5 {
			s.Errorf("exit code %d, want 5", exit.Code)
		}
	}
}

func (s *suite) nothingLeft(id string) {
	s.Helper()
	if seen := s.find(s.Runtime, id); seen != nil {
		s.Errorf("it is listed as %+v, want nothing left behind", seen)
	}
	_, err := s.Wait(s.ctx(), id)
	s.wants(err, types.NotFound)
}
