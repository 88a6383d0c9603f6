package controlplane

import (
	"context"

	"github.com/escher-sched/escher/types"
)

// Client is how an application reads and changes what is its own: the resources,
// tasks and reservations of one namespace. Its methods may be called concurrently.
//
// Every method that changes something checks all of its input first, and writes
// nothing when any of it is wrong (Invalid, or Precondition when only the present
// state forbids it). Every write depends on what it was decided on, so that a copy
// of it that arrives late changes nothing that is newer. What is not answered is
// sent again until ctx is done; then the error is Unknown.
//
// The state of the whole cluster is read with package cluster.
type Client struct {
	store    Store
	ns       string
	statuses statuses
	known    known
	notice   func(reason string)
}

// New makes a client of a namespace. Invalid: namespace is not a name.
func New(store Store, namespace string, opts ...Option) (*Client, error) {
	if err := types.ValidateName("namespace", namespace); err != nil {
		return nil, err
	}
	c := &Client{store: store, ns: namespace, notice: func(string) {}}
	for _, opt := range opts {
		opt(c)
	}
	return c, nil
}

// Namespace returns the namespace.
func (c *Client) Namespace() string { return c.ns }

// Store returns the store.
func (c *Client) Store() Store { return c.store }

// get reads one key; an absent one has ModRevision 0.
func get(ctx context.Context, s Store, key string) (KV, error) {
	page, err := s.List(ctx, ListOptions{Key: key})
	if err != nil || len(page.KVs) == 0 {
		return KV{Key: key}, err
	}
	return page.KVs[0], nil
}
