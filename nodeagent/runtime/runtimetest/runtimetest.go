// Package runtimetest tests the contract of nodeagent.Runtime. Every implementation calls Run.
// Other tests may use the simulated runtime because it passes too.
package runtimetest

import (
	"context"
	"fmt"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/escher-sched/escher/nodeagent"
	"github.com/escher-sched/escher/types"
)

// patience is how long a step may take before the test fails, on a machine that also runs other
// tests.
const patience = 60 * time.Second

// Fixture is an implementation under test. It supports Image, EntryImage and these verbs of the
// test program: exit CODE, block (until SIGTERM, then code 0), usr1 (the same with SIGUSR1), deaf
// (until SIGKILL), alternate (see Alternations) and copy CODE (input to output, then that code). It has no other image, and no other program in
// them.
type Fixture struct {
	// Cluster is the id of the cluster of Open's runtimes. Each run of the suite has its own.
	Cluster string
	// Open returns the runtime of a node of Cluster. Opening a node again restarts its agent.
	Open func(t *testing.T, node string) nodeagent.Runtime
	// Impatient is Open with an AttachWait of a moment.
	Impatient func(t *testing.T, node string) nodeagent.Runtime
	// Ready waits until a container that runs block, usr1 or deaf is ready for signals. Then the
	// program has "ready" in its log. See AwaitLog.
	Ready func(t *testing.T, c nodeagent.Container)
}

// suite is one test of the suite.
type suite struct {
	*testing.T
	Fixture
	nodeagent.Runtime
	node string
	made *atomic.Int64
}

// Run runs the suite. It calls fixture.Open for each of its tests.
func Run(t *testing.T, fixture Fixture) {
	var made atomic.Int64
	for _, test := range all() {
		t.Run(test.name, func(t *testing.T) {
			node := fmt.Sprintf("n%d", made.Add(1))
			test.run(&suite{T: t, Fixture: fixture, Runtime: fixture.Open(t, node), node: node, made: &made})
		})
	}
}

type namedTest struct {
	name string
	run  func(s *suite)
}

func all() []namedTest {
	tests := []namedTest{
		{"StartIsListed", testStartIsListed},
		{"StartRunsOnce", testStartRunsOnce},
		{"StartAsksLast", testStartAsksLast},
		{"StartAfterTheEndDoesNothing", testStartAfterTheEnd},
		{"StartTogetherRunsOnce", testStartTogether},
		{"StartMany", testStartMany},
		{"StartWithoutTimeIsUnavailable", testStartWithoutTime},
		{"NoSuchImage", testNoSuchImage},
		{"NoSuchCommand", testNoSuchCommand},
		{"EntrypointAndCommand", testEntrypointAndCommand},
		{"NoSuchEntrypoint", testNoSuchEntrypoint},
		{"HealthCheckOfTheImage", testHealthCheckOfTheImage},
	}
	tests = append(tests, endTests()...)
	tests = append(tests, insideTests()...)
	tests = append(tests, workdirTests()...)
	tests = append(tests, outputTests()...)
	tests = append(tests, attachTests()...)
	return append(tests, listTests()...)
}

// container returns a container that runs the test program. It is removed at the end.
func (s *suite) container(verb ...string) nodeagent.Container {
	n := int(s.made.Add(1))
	c := nodeagent.Container{
		ID: fmt.Sprintf("%s-%d", s.Cluster, n),
		Attempt: nodeagent.Attempt{
			Cluster: s.Cluster, Node: s.node, Namespace: "default", Task: fmt.Sprintf("task-%d", n), Number: n, Revision: int64(1000 + n),
		},
		Image:   Image,
		Command: append([]string{Program}, verb...),
		LogPath: filepath.Join(s.TempDir(), "log"),
	}
	s.Cleanup(func() {
		// The test's context has ended by now.
		if err := s.Remove(context.Background(), c.ID); err != nil {
			s.Error(err)
		}
	})
	return c
}

// start starts a container that runs the verb.
func (s *suite) start(verb ...string) nodeagent.Container {
	s.Helper()
	c := s.container(verb...)
	s.must(s.Start(s.ctx(), c))
	return c
}

// ctx ends with the test, or after its patience.
func (s *suite) ctx() context.Context {
	ctx, cancel := context.WithTimeout(s.Context(), patience)
	s.Cleanup(cancel)
	return ctx
}

func (s *suite) must(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

func (s *suite) wants(err error, classes ...types.Class) {
	s.Helper()
	for _, class := range classes {
		if types.Is(err, class) {
			return
		}
	}
	s.Errorf("got %v, want an error of class %v", err, classes)
}

// wait waits for a container, and returns how it ended.
func (s *suite) wait(id string) nodeagent.Exit {
	s.Helper()
	exit, err := s.Wait(s.ctx(), id)
	s.must(err)
	return exit
}

// find returns the container from List; nil if it is not listed.
func (s *suite) find(r nodeagent.Runtime, id string) *nodeagent.Observed {
	s.Helper()
	list, err := r.List(s.ctx())
	s.must(err)
	var found *nodeagent.Observed
	for _, seen := range list {
		if seen.ID == id && found != nil {
			s.Errorf("container %s is listed twice", id)
		}
		if seen.ID == id {
			found = &seen
		}
	}
	return found
}

// terminate sends SIGTERM to a container that runs block, and returns how it ended.
func (s *suite) terminate(c nodeagent.Container) nodeagent.Exit {
	s.Helper()
	s.Ready(s.T, c)
	s.must(s.Signal(s.ctx(), c.ID, syscall.SIGTERM))
	return s.wait(c.ID)
}

// Start starts a container, and returns only the error.
func (s *suite) Start(ctx context.Context, c nodeagent.Container) error {
	_, err := s.Runtime.Start(ctx, c)
	return err
}
