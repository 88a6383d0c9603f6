package types

import "cmp"

// Socket is the set of rights of a container through the socket of its task.
type Socket string

// The modes. SocketNamespace grants the whole task API: read, launch, stop and set everything in
// the task's namespace. SocketSelf grants calls about the task itself. SocketNone provides no
// socket.
const (
	SocketNamespace Socket = "" // as text: namespace
	SocketSelf      Socket = "self"
	SocketNone      Socket = "none"
	socketText             = "namespace"
)

// ParseSocket parses namespace, which is the default, self or none.
func ParseSocket(s string) (Socket, error) {
	if s == socketText {
		return SocketNamespace, nil
	}
	return Socket(s), Socket(s).validate()
}

// String returns the form that ParseSocket parses.
func (s Socket) String() string { return cmp.Or(string(s), socketText) }

func (s Socket) validate() error {
	switch s {
	case SocketNamespace, SocketSelf, SocketNone:
		return nil
	}
	return Errorf(Invalid, "socket: %q is unknown: use namespace, self or none", shorten(string(s)))
}
