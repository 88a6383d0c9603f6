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
	nodes    sessions
}

// New makes a client of a namespace. Invalid: namespace is not a name.
func New(store Store, namespace string) (*Client, error) {
	if err := types.ValidateName("namespace", namespace); err != nil {
		return nil, err
	}
	return &Client{store: store, ns: namespace}, nil
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

// pageSize bounds how many keys are asked for at once.
const pageSize = 1000

// ListAll reads a whole range in pages, all at one revision: the one asked for, or
// the newest; it returns that too. Limit and After are ignored.
func ListAll(ctx context.Context, s Store, opts ListOptions) ([]KV, int64, error) {
	opts.Limit, opts.After = pageSize, ""
	var all []KV
	for {
		page, err := s.List(ctx, opts)
		if err != nil {
			return nil, 0, err
		}
		all = append(all, page.KVs...)
		if !page.More {
			return all, page.Revision, nil
		}
		opts.Revision, opts.After = page.Revision, page.KVs[len(page.KVs)-1].Key
	}
}
