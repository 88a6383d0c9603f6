package gateway

import (
	"bytes"
	"context"
	"net/url"
	"slices"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/protobuf/proto"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/submitter"
	"github.com/escher-sched/escher/types"
)

// This file checks what depends on other keys, which a transaction compares: it reads them as they are. If
// they change before the commit, its compares fail.

// read reads a key for a check, and reports whether it is there and readable.
func (c *check) read(ctx context.Context, key string, m types.Message) (revision uint64, there bool, err error) {
	res, err := c.g.kv.Range(ctx, &pb.RangeRequest{Key: []byte(key)}, answers())
	if err != nil || len(res.Kvs) == 0 {
		return 0, false, err
	}
	return uint64(res.Kvs[0].ModRevision), types.Decode(res.Kvs[0].Value, m) == nil, nil
}

// content checks a value of the n-th operation that readers take.
func (c *check) content(ctx context.Context, n int, k controlplane.Key, put *operation, m types.Message) error {
	revision, compared := c.compared[string(put.key)]
	fresh := compared && revision == 0
	switch m := m.(type) {
	case *types.Node:
		if c.user.node != "" && !ofAgent(m.Address) {
			return types.Errorf(types.Denied, "commit: %s: address: %.100q is not the port of an agent, to which servers connect: give http://host:port, https://host:port or %s", k, m.Address, types.TunnelAddress)
		}
		return c.keepsLabels(ctx, k, m)
	case *types.Spec:
		fresh = true
		if digest := controlplane.SpecDigest(m); digest != k.ID {
			return types.Errorf(types.Invalid, "commit: %s: its content has the digest %s: name it so", k, digest)
		}
	case *types.Task:
		if !compared {
			if _, ofJob := c.compared[controlplane.JobKey(k.Namespace, m.Job)]; m.Job == "" || !ofJob {
				return types.Errorf(types.Invalid, "commit: %s: is put, and neither it nor its job is compared: compare a revision, 0 if it is not there", k)
			}
			fresh = true
		}
		if err := c.allows(ctx, k, fresh, m.Priority, m.Accumulate); err != nil {
			return err
		}
	case *types.Reservation:
		if err := c.allows(ctx, k, fresh, m.Priority, m.Accumulate || m.Directed()); err != nil {
			return err
		}
	}
	if fresh && c.ofApplication(k) {
		if err := c.inBudget(k); err != nil {
			return err
		}
	}
	return c.submitted(ctx, n, k, put, m, fresh)
}

// ofAgent reports whether an agent may give an address: none, a tunnel or its port. A socket would be one of
// the machine of each server, and a path or query could change requests of servers.
func ofAgent(address string) bool {
	if address == "" || address == types.TunnelAddress {
		return true
	}
	u, err := url.Parse(address)
	if err != nil || u.Hostname() == "" || u.Scheme != "http" && u.Scheme != "https" {
		return false
	}
	port := u.Scheme + "://" + u.Host
	return address == port || u.Fragment != "" && address == port+"#"+u.Fragment // the boot of its machine
}

// keepsLabels returns an error if an agent changes what administrators have set of its labels.
func (c *check) keepsLabels(ctx context.Context, k controlplane.Key, n *types.Node) error {
	var was types.Node
	_, there, err := c.read(ctx, k.String(), &was)
	if err != nil || c.user.node == "" {
		return err
	}
	if there && (!slices.Equal(was.SetLabels, n.SetLabels) || !slices.Equal(was.HiddenLabels, n.HiddenLabels)) {
		return types.Errorf(types.Denied, "commit: %s: setLabels, hiddenLabels: are those of administrators: leave them as they are", k)
	}
	return nil
}

// inBudget returns an error unless the transaction compares that the namespace of a new key is within its
// budget.
func (c *check) inBudget(k controlplane.Key) error {
	guard := controlplane.NamespaceAdmissionKey(k.Namespace)
	if revision, compared := c.compared[guard]; !compared || revision != 0 {
		return types.Errorf(types.Invalid, "commit: %s: is new, and %s is not compared as absent, which says that the namespace is over its budget: compare its revision with 0", k, guard)
	}
	return nil
}

// allows checks a task or reservation against the settings of its namespace, and a new one against the
// admission of the cluster.
func (c *check) allows(ctx context.Context, k controlplane.Key, fresh bool, priority int, accumulate bool) error {
	settings := controlplane.NamespaceKey(k.Namespace)
	n, read := c.settings[k.Namespace]
	if !read {
		revision, compared := c.compared[settings]
		n = new(types.Namespace)
		at, there, err := c.read(ctx, settings, n)
		switch {
		case err != nil:
			return err
		case fresh && (!compared || revision == anyRevision):
			return types.Errorf(types.Invalid, "commit: %s: is new, and %s is not compared, which has its limits: compare its revision, 0 if it is not there", k, settings)
		case compared && revision != anyRevision && revision != at:
			return nil // the transaction fails
		}
		if !there {
			n = nil
		}
		if c.settings == nil {
			c.settings = make(map[string]*types.Namespace)
		}
		c.settings[k.Namespace] = n
	}
	if n != nil {
		if err := controlplane.Allows(n, k.Namespace, k.String()+": ", priority, accumulate); err != nil {
			return err
		}
	}
	if !fresh {
		return nil
	}
	return c.admitted(ctx, k)
}

// admitted returns an error unless the transaction compares that the cluster admits new work.
func (c *check) admitted(ctx context.Context, k controlplane.Key) error {
	guard := controlplane.AdmissionKey()
	revision, compared := c.compared[guard]
	switch {
	case !compared || revision == anyRevision:
		return types.Errorf(types.Invalid, "commit: %s: is new, and %s is not compared, which says what is admitted: compare its revision, 0 if it is not there", k, guard)
	case revision == 0:
		return nil
	}
	var a types.Admission
	if at, there, err := c.read(ctx, guard, &a); err != nil || at != revision || there && a.Busy && k.Kind == controlplane.Tasks {
		return err // while submission is slowed, a launch that has begun ends
	}
	return types.Errorf(types.Precondition, "commit: %s: no new work is admitted: %s: wait until %s is gone", k, a.Reason, guard)
}

// submitted makes the user of a new task or job the submitter, and keeps that of one that is there.
func (c *check) submitted(ctx context.Context, n int, k controlplane.Key, put *operation, m types.Message, fresh bool) error {
	by := submitter.From(ctx)
	if by.User == "" || c.user.node != "" { // the socket of a task does so itself
		return nil
	}
	value, err := by.Recorded(c.checks(ctx), string(put.key), put.value, fresh)
	if err != nil {
		return err
	}
	if !bytes.Equal(value, put.value) {
		if c.recorded == nil {
			c.recorded = make(map[int][]byte)
		}
		c.recorded[n] = value
	}
	if fresh {
		return nil
	}
	var is, was string
	var there types.Message
	switch m := m.(type) {
	case *types.Task:
		var before types.Task
		_, _, err = c.read(ctx, k.String(), &before)
		is, was, there = m.User, before.User, &before
	case *types.Reservation:
		var before types.Reservation
		_, _, err = c.read(ctx, k.String(), &before)
		there = &before
	case *types.Job:
		var before types.Job
		_, _, err = c.read(ctx, k.String(), &before)
		is, was = m.User, before.User
	}
	if err == nil && there != nil {
		if err = by.Changes(c.checks(ctx), k.Namespace, m, there); err != nil {
			err = types.Errorf(types.ClassOf(err), "commit: %s: %w", k, err)
		}
	}
	if err == nil && is != was {
		err = types.Errorf(types.Denied, "commit: %s: user: %q was %q: leave it as it is", k, is, was)
	}
	return err
}

// record returns the transaction with the values that have another user now.
func (c *check) record(req *frame) (*frame, error) {
	var txn pb.TxnRequest
	if err := proto.Unmarshal(req.data, &txn); err != nil {
		return nil, unreadable(err)
	}
	for n, value := range c.recorded {
		txn.Success[n].GetRequestPut().Value = value
	}
	data, err := proto.Marshal(&txn)
	return &frame{data}, err
}

// ended returns an error unless the task of a key that is deleted has ended, or was never seen: its job is
// not there.
func (c *check) ended(ctx context.Context, k controlplane.Key) error {
	var s types.Status
	status := controlplane.StatusKey(k.Namespace, k.ID)
	revision, compared := c.compared[status]
	at, there, err := c.read(ctx, status, &s)
	switch {
	case err != nil:
		return err
	case compared && revision != anyRevision && revision != at:
		return nil // the transaction fails
	case compared && revision == at && there && s.Phase.Ended():
		return nil
	case at == 0:
		var t types.Task
		if _, there, err := c.read(ctx, controlplane.TaskKey(k.Namespace, k.ID), &t); err != nil || !there {
			return err
		}
		if revision, compared := c.compared[controlplane.JobKey(k.Namespace, t.Job)]; t.Job != "" && compared && revision == 0 {
			return nil
		}
	}
	return types.Errorf(types.Invalid, "commit: %s: is deleted, and %s is not compared as that of an ended task: stop it first", k, status)
}
