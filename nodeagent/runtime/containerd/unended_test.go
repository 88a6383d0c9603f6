package containerd

import (
	"context"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/containerd/containerd/v2/client"
	"github.com/containerd/containerd/v2/pkg/cio"

	"github.com/escher-sched/escher/nodeagent"
	"github.com/escher-sched/escher/types"
)

// stuck is a process that runs until it is released, even after a kill.
type stuck struct {
	client.Process
	end chan struct{}
	// hangs makes calls that kill it wait for its end.
	hangs bool
	over  sync.WaitGroup // calls that wait for its end
}

func (*stuck) Pid() uint32                 { return 0 }
func (*stuck) Start(context.Context) error { return nil }

func (*stuck) IO() cio.IO {
	none, err := cio.NullIO("")
	if err != nil {
		panic(err)
	}
	return none
}

func (s *stuck) Wait(ctx context.Context) (<-chan client.ExitStatus, error) {
	ended := make(chan client.ExitStatus, 1)
	s.over.Go(func() {
		select {
		case <-s.end:
			ended <- *client.NewExitStatus(137, time.Now(), nil)
		case <-ctx.Done():
		}
	})
	return ended, nil
}

func (s *stuck) Kill(ctx context.Context, _ syscall.Signal, _ ...client.KillOpts) error {
	if !s.hangs {
		return nil
	}
	<-ctx.Done()
	return ctx.Err()
}

func (s *stuck) Delete(ctx context.Context, _ ...client.ProcessDeleteOpts) (*client.ExitStatus, error) {
	select {
	case <-s.end:
		return client.NewExitStatus(137, time.Now(), nil), nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// TestFollowsNothingForEver tests that a kill of a process which does not end returns soon.
func TestFollowsNothingForEver(t *testing.T) {
	for name, hangs := range map[string]bool{"the process hangs": false, "who kills it hangs": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &stuck{end: make(chan struct{}), hangs: hangs}
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				from := time.Now()
				_, over, err := follow(ctx, "c", s, nodeagent.Process{}, &input{end: make(chan struct{})})
				if took := time.Since(from); over || !types.Is(err, types.Unavailable) || took != time.Second+killWait {
					t.Errorf("over %t, %v, after %v", over, err, took)
				}
				s.over.Wait() // nothing waits for it
			})
		})
	}
}

// TestUnendedAreDropped tests that unended commands are removed once they end, and are limited.
func TestUnendedAreDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var u unended
		s := &stuck{end: make(chan struct{})}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		for range mostUnended {
			if err := u.refuse("c"); err != nil {
				t.Error(err)
			}
			u.drop(ctx, "c", s)
		}
		time.Sleep(time.Hour)
		if err := u.refuse("c"); !types.Is(err, types.Unavailable) {
			t.Errorf("another command: %v", err)
		}
		if err := u.refuse("d"); err != nil {
			t.Errorf("another container: %v", err)
		}
		close(s.end)
		u.wait()
		if err := u.refuse("c"); err != nil || len(u.count) != 0 {
			t.Errorf("when all have ended: %v, %v", err, u.count)
		}
	})
}
