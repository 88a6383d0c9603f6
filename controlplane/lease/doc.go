// Package lease keeps keys that exist as long as a process does: roles, and presence.
package lease
