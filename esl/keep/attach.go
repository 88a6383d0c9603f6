package keep

import (
	"context"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/types"
)

// Attached is an application with what it submits: tasks, policies and what these make end
// with it, however it ends. Its policies are kept by itself, no server knows them; so they
// may be of kinds of its own: add them to Kinds.
type Attached struct {
	*esl.Client
	// Log is told what is done; nil is nobody.
	Log *zap.Logger

	session *controlplane.Session
}

// attachTTL is how long an application may be cut off from the store, or dead, before
// what is its own ends.
const attachTTL = 15 * time.Second

// Attach opens a session for an application; the name says whose it is, for people. Run
// must be called soon.
func Attach(ctx context.Context, c *esl.Client, name string) (*Attached, error) {
	session, err := c.OpenSession(ctx, name, attachTTL)
	if err != nil {
		return nil, err
	}
	return &Attached{Client: c, session: session}, nil
}

// Session returns the id of its session, for what else is to end with it.
func (a *Attached) Session() string { return a.session.ID }

// Submit is Client.Submit of a job that ends with the application.
func (a *Attached) Submit(ctx context.Context, job esl.Job, policies ...esl.Policy) (controlplane.Launched, error) {
	job.Session = a.session.ID
	return a.Client.Submit(ctx, job, policies...)
}

// Prepare is Client.Prepare of a job that ends with the application.
func (a *Attached) Prepare(ctx context.Context, job esl.Job, policies ...esl.Policy) (*controlplane.Transaction, controlplane.Launched, error) {
	job.Session = a.session.ID
	return a.Client.Prepare(ctx, job, policies...)
}

// Expand is Client.Expand of a job that ends with the application.
func (a *Attached) Expand(ctx context.Context, job esl.Job, policies ...esl.Policy) (*esl.Expanded, error) {
	job.Session = a.session.ID
	return a.Client.Expand(ctx, job, policies...)
}

// Declare is Client.Declare of a shared policy that ends with the application.
func (a *Attached) Declare(ctx context.Context, id string, p esl.Shared) error {
	return a.Client.Declare(ctx, id, p, a.session.ID)
}

// Run keeps the session, and its policies, until ctx is done, and returns ctx.Err() then;
// what is the application's goes on until Close, or for up to 15 s. Precondition: the
// session was lost, and with it what it owned.
func (a *Attached) Run(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return a.session.Run(ctx) })
	g.Go(func() error {
		return Run(ctx, a.Store(), Options{Kinds: a.Kinds, Namespace: a.Namespace(), Session: a.session.ID, Log: a.Log})
	})
	return g.Wait()
}

// Close ends the application's tasks and policies, and all that is of its session.
func (a *Attached) Close(ctx context.Context) error {
	if err := a.session.Close(ctx); err != nil {
		return types.Errorf(types.ClassOf(err), "detach: %w", err)
	}
	return nil
}
