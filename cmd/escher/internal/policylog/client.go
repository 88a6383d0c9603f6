package policylog

import (
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/url"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/esl/decisions"
	"github.com/escher-sched/escher/nodeagent/fence/watchdog"
	"github.com/escher-sched/escher/nodeagent/serve/answer"
	"github.com/escher-sched/escher/types"
	"github.com/escher-sched/escher/types/action"
)

const (
	// patience limits a question with its answer, maxAnswer the length of the answer: some hundred
	// entries.
	patience  = 10 * time.Second
	maxAnswer = 16 << 20
)

// Client asks the server that runs policies. Its methods may be called concurrently.
type Client struct {
	server, address, base, token string
	http                         *http.Client
}

// Role is the role of the server that runs policies.
const Role = "policies"

// Find returns a client of the server that runs the policies of a store's cluster; socket is the one
// that the server of a directory serves, if there is no other. Unavailable: no server runs policies.
// Precondition: this machine cannot reach it.
func Find(ctx context.Context, store controlplane.Store, socket string) (*Client, error) {
	page, err := store.List(ctx, controlplane.ListOptions{Key: controlplane.LeaderKey(Role)})
	if err != nil {
		return nil, err
	}
	var leader types.Leader
	switch {
	case len(page.KVs) > 0 && controlplane.Read(page.KVs[0], &leader):
		return newClient(&leader)
	case socket != "":
		return newClient(&types.Leader{Holder: "of escher dev", Address: socket})
	}
	return nil, types.Errorf(types.Unavailable, "read the log of policies: no server runs policies: start %s", action.StartServer.Of())
}

// newClient returns a client of a server.
func newClient(leader *types.Leader) (*Client, error) {
	c := &Client{server: leader.Holder, address: leader.Address, token: leader.Token}
	u, err := url.Parse(leader.Address)
	switch {
	case leader.Address == "":
		return nil, types.Errorf(types.Precondition, "ask server %s: it serves no log of policies: run a server of this version there", c.server)
	case err != nil || u.Scheme != "unix" && u.Scheme != "http":
		return nil, types.Errorf(types.Precondition, "ask server %s: its address %q is none: run a server of this version there", c.server, leader.Address)
	case u.Fragment != "" && u.Fragment != watchdog.BootID():
		return nil, types.Errorf(types.Precondition, "ask server %s: it answers on its own machine alone: run this command there, or start the server with --ops and an address that other machines reach", c.server)
	}
	dialer := &net.Dialer{Timeout: patience}
	transport := &http.Transport{DialContext: dialer.DialContext, DisableKeepAlives: true}
	c.base = "http://" + u.Host
	if u.Scheme == "unix" {
		c.base = "http://server"
		transport.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
			return dialer.DialContext(ctx, "unix", u.Path)
		}
	}
	c.http = &http.Client{Transport: transport, Timeout: patience}
	return c, nil
}

// Read returns the decisions of the policies of a job, or of a shared policy, that changed after a
// number; 0 means all. Unavailable: the server does not answer.
func (c *Client) Read(ctx context.Context, ns, id string, after int64) (page decisions.Page, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.base+path(ns, id, after), http.NoBody)
	if err != nil {
		return page, types.Errorf(types.Invalid, "ask server %s: %w", c.server, err)
	}
	if c.token != "" {
		req.Header.Set("Authorization", "Bearer "+c.token)
	}
	res, err := c.http.Do(req)
	if err != nil {
		return page, c.broken(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer))
	switch {
	case err != nil:
		return page, c.broken(err)
	case res.StatusCode != http.StatusOK:
		return page, answer.Refused("server "+c.server, res.StatusCode, text)
	}
	if err := json.Unmarshal(text, &page); err != nil {
		return page, types.Errorf(types.Internal, "read the answer of server %s: %w", c.server, err)
	}
	return page, nil
}

// broken returns the error for a missing answer.
func (c *Client) broken(err error) error {
	return types.Errorf(types.Unavailable, "ask server %s at %s for its log of policies: %w: look whether it runs, and whether this machine reaches that address", c.server, c.address, err)
}
