// Package connected measures agents that reach a cluster by the port of a server alone, as those of escher
// agent --server do: each has a certificate of its own, a connection to the gateway, and a tunnel.
package connected
