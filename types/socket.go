package types

import "cmp"

// Socket is what a container may do through the socket of its task.
type Socket string

// The modes. Namespace is all that the task API has: read, launch, stop and set whatever is in
// the task's namespace. Self is about the task itself. None is no socket.
const (
	SocketNamespace Socket = "" // in text: namespace
	SocketSelf      Socket = "self"
	SocketNone      Socket = "none"
	socketText             = "namespace"
)

// ParseSocket reads what people write: namespace, which is what holds if they write nothing,
// self or none.
func ParseSocket(s string) (Socket, error) {
	if s == socketText {
		return SocketNamespace, nil
	}
	return Socket(s), Socket(s).validate()
}

// String returns what ParseSocket reads.
func (s Socket) String() string { return cmp.Or(string(s), socketText) }

func (s Socket) validate() error {
	switch s {
	case SocketNamespace, SocketSelf, SocketNone:
		return nil
	}
	return Errorf(Invalid, "socket: %q is unknown: use namespace, self or none", shorten(string(s)))
}
