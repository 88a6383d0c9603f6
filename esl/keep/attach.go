package keep

import (
	"context"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/esl/decisions"
	"github.com/escher-sched/escher/types"
)

// Attached is an application and what it submits: its tasks, policies and their objects end with
// it, however it ends. The application runs its policies, and no server knows them. So they may be
// of kinds of its own: add them to Kinds.
type Attached struct {
	*esl.Client
	// Log is the logger; nil means none.
	Log *zap.Logger
	// Decisions gets each decision of its policies; nil means that none is kept.
	Decisions *decisions.Log

	session *controlplane.Session
}

// attachTTL is how long an application may be cut off from the store, or dead, before its objects
// end.
const attachTTL = 15 * time.Second

// Attach opens a session for an application; the name tells people which. Run must be called soon.
func Attach(ctx context.Context, c *esl.Client, name string) (*Attached, error) {
	session, err := c.OpenSession(ctx, name, attachTTL)
	if err != nil {
		return nil, err
	}
	return &Attached{Client: c, session: session}, nil
}

// Session returns the id of the session, for other objects that end with it.
func (a *Attached) Session() string { return a.session.ID }

// Submit is Client.Submit of a job that ends with the application.
func (a *Attached) Submit(ctx context.Context, job controlplane.Job, policies ...esl.Policy) (controlplane.Launched, error) {
	job.Session = a.session.ID
	return a.Client.Submit(ctx, job, policies...)
}

// Prepare is Client.Prepare of a job that ends with the application.
func (a *Attached) Prepare(ctx context.Context, job controlplane.Job, policies ...esl.Policy) (*controlplane.Transaction, controlplane.Launched, error) {
	job.Session = a.session.ID
	return a.Client.Prepare(ctx, job, policies...)
}

// Expand is Client.Expand of a job that ends with the application.
func (a *Attached) Expand(ctx context.Context, job controlplane.Job, batch esl.Batch, policies ...esl.Policy) (*esl.Expanded, error) {
	job.Session = a.session.ID
	return a.Client.Expand(ctx, job, batch, policies...)
}

// Declare is Client.Declare of a shared policy that ends with the application.
func (a *Attached) Declare(ctx context.Context, id string, p esl.Shared) error {
	return a.Client.Declare(ctx, id, p, a.session.ID)
}

// Run keeps the session and runs its policies until ctx is done; it then returns ctx.Err(). The
// application's objects stay until Close, or for up to 15 s. Precondition: the session was lost,
// and its objects with it.
func (a *Attached) Run(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return a.session.Run(ctx) })
	g.Go(func() error {
		return Run(ctx, a.Store(), Options{Kinds: a.Kinds, Namespace: a.Namespace(), Session: a.session.ID, Log: a.Log, Decisions: a.Decisions})
	})
	return g.Wait()
}

// Close ends the application's tasks and policies, and all objects of its session.
func (a *Attached) Close(ctx context.Context) error {
	if err := a.session.Close(ctx); err != nil {
		return types.Errorf(types.ClassOf(err), "detach: %w", err)
	}
	return nil
}
