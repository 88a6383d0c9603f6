package runtimetest

import (
	"context"

	"github.com/escher-sched/escher/types"
)

func listTests() []namedTest {
	return []namedTest{
		{"ListIsOfOneNode", testListIsOfOneNode},
		{"ListOfNothing", testListOfNothing},
		{"RestartFindsAll", testRestartFindsAll},
		{"ChangesTellOfAnEnd", testChangesTellOfAnEnd},
		{"ChangesEndWithTheirContext", testChangesEnd},
		{"WithoutTimeIsUnavailable", testWithoutTime},
	}
}

func testListIsOfOneNode(s *suite) {
	c := s.start("block")
	other := s.Open(s.T, s.node+"-other")
	if seen := s.find(other, c.ID); seen != nil {
		s.Errorf("another node lists it: %+v", seen)
	}
}

func testListOfNothing(s *suite) {
	list, err := s.List(s.ctx())
	s.must(err)
	if len(list) > 0 {
		s.Errorf("a new node lists %+v", list)
	}
}

func testRestartFindsAll(s *suite) {
	running, ended := s.start("block"), s.start("exit", "8")
	s.wait(ended.ID)
	again := s.Open(s.T, s.node)
	if seen := s.find(again, running.ID); seen == nil || !seen.Running || seen.Attempt != running.Attempt {
		s.Errorf("listed as %+v, want %+v running", seen, running.Attempt)
	}
	if seen := s.find(again, ended.ID); seen == nil || seen.Running || seen.Exit == nil || seen.Exit.Code != 8 {
		s.Errorf("listed as %+v, want it ended with 8", seen)
	}
	exit, err := again.Wait(s.ctx(), ended.ID)
	s.must(err)
	if exit.Code != 8 {
		s.Errorf("exit %+v, want code 8", exit)
	}
	_, err = again.Start(s.ctx(), running)
	s.must(err)
	s.must(again.Remove(s.ctx(), running.ID))
	s.nothingLeft(running.ID)
}

func testChangesTellOfAnEnd(s *suite) {
	c := s.container("exit", "0")
	ctx := s.ctx()
	changes := s.Changes(ctx)
	s.must(s.Start(ctx, c))
	for {
		if seen := s.find(s.Runtime, c.ID); seen != nil && seen.Exit != nil {
			return
		}
		select {
		case _, ok := <-changes:
			if !ok {
				s.Fatal("changes ended")
			}
		case <-ctx.Done():
			s.Fatal("no hint that it ended")
		}
	}
}

func testChangesEnd(s *suite) {
	ctx, cancel := context.WithCancel(s.ctx())
	changes := s.Changes(ctx)
	cancel()
	limit := s.ctx()
	for {
		select {
		case _, ok := <-changes:
			if !ok {
				return
			}
		case <-limit.Done():
			s.Fatal("changes go on without their context")
		}
	}
}

func testWithoutTime(s *suite) {
	c := s.start("block")
	ctx, cancel := context.WithCancel(s.ctx())
	cancel()
	_, err := s.List(ctx)
	s.wants(err, types.Unavailable)
	_, err = s.Wait(ctx, c.ID)
	s.wants(err, types.Unavailable)
	s.wants(s.Signal(ctx, c.ID, 9), types.Unavailable)
	s.wants(s.Remove(ctx, c.ID), types.Unavailable)
	if seen := s.find(s.Runtime, c.ID); seen == nil || !seen.Running {
		s.Errorf("listed as %+v, want it running", seen)
	}
}
