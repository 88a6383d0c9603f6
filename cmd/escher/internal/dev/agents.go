package dev

import "context"

// agents starts the nodes.
func (c *running) agents(context.Context) error {
	return errNoLogger()
}

// LogPath returns the log of an attempt.
func (d Dir) LogPath(node, ns, id string, attempt int) string {
	return d.path("agents", node, ns, id)
}
