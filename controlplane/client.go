package controlplane

import (
	"context"

	"github.com/escher-sched/escher/types"
)

// A Client reads and changes the objects of one namespace: resources, tasks and reservations. Its
// methods may be called concurrently.
//
// Every method that writes checks all of its input first, and writes nothing if any of it is wrong
// (Invalid, or Precondition if only the present state forbids it). Every write compares the keys
// its decision relied on, so that a late copy of it overwrites nothing newer. The client sends an
// unanswered write again until ctx is done; then the error is Unknown.
//
// Package cluster reads the state of the whole cluster.
type Client struct {
	store    Store
	ns       string
	statuses statuses
	known    known
	notice   func(reason string)
}

// New returns a client of a namespace. Invalid: namespace is not a name.
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

// Namespace returns the client's namespace.
func (c *Client) Namespace() string { return c.ns }

// Store returns the client's store.
func (c *Client) Store() Store { return c.store }

// Get reads one key; an absent one has ModRevision 0.
func Get(ctx context.Context, s Store, key string) (KV, error) {
	page, err := s.List(ctx, ListOptions{Key: key})
	if err != nil || len(page.KVs) == 0 {
		return KV{Key: key}, err
	}
	return page.KVs[0], nil
}
