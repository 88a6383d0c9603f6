//go:build !linux

// Package watchdog stops the tasks of an agent that hangs, on Linux alone. Elsewhere it has what the clients
// of agents need.
package watchdog

import (
	"context"
	"errors"
	"time"
)

// SessionFile and EndingDir are in the state directory of an agent.
const (
	SessionFile = "session"
	EndingDir   = "ending"
)

// Page is the deadline of an agent.
type Page struct{}

// OpenPage opens none.
func OpenPage(string) (*Page, error) { return nil, errors.ErrUnsupported }

// Set sets nothing.
func (*Page) Set(context.Context, time.Duration, string) error { return errors.ErrUnsupported }

// Check checks nothing.
func (*Page) Check(context.Context) error { return errors.ErrUnsupported }

// Close does nothing.
func (*Page) Close() error { return nil }

// ReadMark reads nothing.
func ReadMark(string, string) (string, error) { return "", errors.ErrUnsupported }

// BootTime is unknown.
func BootTime() time.Duration { return 0 }

// BootID is unknown: nothing runs on loopback of this machine.
func BootID() string { return "" }
