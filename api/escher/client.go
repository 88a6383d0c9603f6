// Package escher is the client of Escher for programs in Go. Outside of tasks, it reaches the store
// of the cluster; in a task, it asks the socket of the task. So the same program works at both
// places.
//
//	client, err := escher.Connect(ctx)
//	if err != nil {
//		return err
//	}
//	defer client.Close()
//	err = client.SetResource(ctx, "license", "2", escher.InCluster())
//
// Errors have a class of package types, by which a program decides: errors.Is(err, types.NotFound).
package escher

import (
	"context"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/escher-sched/escher/api/contexts"
	"github.com/escher-sched/escher/api/requests"
	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/esl/builtin"
	"github.com/escher-sched/escher/esl/decisions"
	"github.com/escher-sched/escher/esl/keep"
	"github.com/escher-sched/escher/nodeagent/serve/nodeapi"
	"github.com/escher-sched/escher/types"
)

// Client is a client of one namespace of a cluster. Its methods may be called concurrently.
type Client struct {
	namespace string
	requests  transport
	// self is the task in which the program runs; its zero value is none.
	self Self
	// jobs submits jobs with policies; nil in a task.
	jobs *esl.Client
	// measure asks nodes for what they measure, for policies of this program; nil asks none.
	measure keep.Measure
	// decided has the decisions of policies of this program; nil in a task.
	decided *decisions.Log
	log     *zap.Logger
	end     func() error
}

// transport performs requests: on the store, or by the socket of a task.
type transport interface {
	State(ctx context.Context, reads bool) (requests.State, error)
	Set(ctx context.Context, s requests.Set) (requests.Committed, error)
	Launch(ctx context.Context, l requests.Launch) (requests.Launched, error)
	Tasks(ctx context.Context) (requests.Tasks, error)
	Status(ctx context.Context, id string) (requests.Status, error)
	Wait(ctx context.Context, until string, timeout time.Duration, ids ...string) (requests.Waited, error)
	Stop(ctx context.Context, id string, s requests.Stop) error
	Evict(ctx context.Context, id string, attempt int) error
	Reserve(ctx context.Context, r requests.Reserve) error
	Unreserve(ctx context.Context, id string) error
	Commit(ctx context.Context, t requests.Transaction) (requests.Committed, error)
	Watch(ctx context.Context, w requests.Watch, handle func(requests.Event) error) error
}

// Connect returns a client of the cluster that the options name, else the socket of the task, the
// environment, or the context in use, in this order; without any of them, of the cluster of escher
// dev in its default directory. Unavailable: it does not answer within seconds. Close the client
// after use.
func Connect(ctx context.Context, opts ...Option) (*Client, error) {
	o := options{}
	for _, opt := range opts {
		opt(&o)
	}
	place, err := contexts.Find(o.given, o.environment())
	if err != nil {
		return nil, err
	}
	if place.Socket != "" {
		return inside(ctx, place.Socket, o)
	}
	if err := types.ValidateName("namespace", place.Namespace); err != nil {
		return nil, err
	}
	place, err = place.Fresh(ctx, o.environment(), clock)
	if err != nil {
		return nil, err
	}
	store, err := place.Dial(ctx)
	if err != nil {
		return nil, err
	}
	c, err := outside(store, place.Namespace, o.logger(), store.Close)
	if err != nil {
		return nil, err
	}
	c.measure, err = measuring(place, store)
	return c, err
}

// measuring returns how to ask the nodes of a cluster for what they measure; nil through a gateway, which
// keeps the tokens of nodes to itself.
func measuring(place contexts.Place, store controlplane.Store) (keep.Measure, error) {
	if place.Server != "" {
		return nil, nil
	}
	address, err := place.Etcd()
	if err != nil {
		return nil, err
	}
	cfg, err := address.Config()
	if err != nil {
		return nil, err
	}
	usage := &nodeapi.Reader{Dialer: nodeapi.Dialer{Store: store, TLS: nodeapi.Trusting(cfg.TLS)}}
	return usage.Measured, nil
}

// outside returns a client of a store. Invalid: the namespace is not a name.
func outside(store controlplane.Store, namespace string, log *zap.Logger, end func() error) (*Client, error) {
	client, err := controlplane.New(store, namespace)
	if err != nil {
		return nil, err
	}
	c := Over(builtin.New(client))
	c.requests, c.log, c.end = requests.Direct{Client: client, Now: clock, Log: log}, log, sync.OnceValue(end)
	return c, nil
}

// Over returns a client over one of package esl, such as that of a cluster for tests. Closing it
// closes nothing.
func Over(jobs *esl.Client) *Client {
	return &Client{
		namespace: jobs.Namespace(), requests: requests.Direct{Client: jobs.Client, Now: clock}, jobs: jobs, decided: decisions.New(time.Time{}), log: zap.NewNop(), end: func() error { return nil },
	}
}

// inside returns a client of the socket of a task.
func inside(ctx context.Context, path string, o options) (*Client, error) {
	socket, self, err := requests.Inside(ctx, path, clock)
	if err != nil {
		return nil, err
	}
	if o.given.Namespace != "" && o.given.Namespace != self.Namespace {
		socket.Close()
		return nil, types.Errorf(types.Precondition, "namespace: is %q, but this task can use its own alone, %s: leave it out", o.given.Namespace, self.Namespace)
	}
	end := func() error {
		socket.Close()
		return nil
	}
	return &Client{namespace: self.Namespace, requests: socket, self: self, log: o.logger(), end: end}, nil
}

// Close ends the connections of the client. End its watches before, by their ctx. Later calls of
// Close return the result of the first.
func (c *Client) Close() error { return c.end() }

// Namespace is the namespace of the client.
func (c *Client) Namespace() string { return c.namespace }

// Self is the task in which the program runs. ok is false outside of tasks.
func (c *Client) Self() (self Self, ok bool) { return c.self, c.self.Task != "" }

// errInside refuses what no task can do.
func errInside(what string) error {
	return types.Errorf(types.Precondition, "%s: the socket of a task cannot: run the program outside of tasks", what)
}
