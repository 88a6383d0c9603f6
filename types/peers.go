package types

import "cmp"

// Peers says what the process of a task learns of the other tasks of its job. The address of a task
// is the host of its node, with its PeerPort.
type Peers string

// With NoPeers a process learns nothing. With WholePeers it starts when all tasks of the job have a
// node at the same attempt, and has their addresses in its environment and in a file. With AnyPeers
// it does not wait for other tasks, and has the addresses that are known. With RunningPeers only the
// file has them. With AnyPeers and RunningPeers the file follows the running tasks.
const (
	NoPeers      Peers = "" // as text: none
	WholePeers   Peers = "whole"
	AnyPeers     Peers = "any"
	RunningPeers Peers = "running"
)

// PeerPort is the name of the port for peers. A task that has no such port uses its first one.
const PeerPort = "peer"

// noPeersText is the text form of NoPeers.
const noPeersText = "none"

// ParsePeers parses none, which is the default, whole, any or running. Invalid: the error names the
// values.
func ParsePeers(s string) (Peers, error) {
	switch p := Peers(s); p {
	case NoPeers, WholePeers, AnyPeers, RunningPeers:
		return p, nil
	case noPeersText:
		return NoPeers, nil
	}
	return NoPeers, Errorf(Invalid, "peers: %q is unknown: use none, whole, any or running", shorten(s))
}

// Choices lists the values in the form that ParsePeers parses.
func (Peers) Choices() []string {
	return []string{noPeersText, string(WholePeers), string(AnyPeers), string(RunningPeers)}
}

// String returns the form that ParsePeers parses.
func (p Peers) String() string { return cmp.Or(string(p), noPeersText) }

// Listed reports whether the environment has the addresses.
func (p Peers) Listed() bool { return p == WholePeers || p == AnyPeers }

// Followed reports whether the file follows the running tasks.
func (p Peers) Followed() bool { return p == AnyPeers || p == RunningPeers }
