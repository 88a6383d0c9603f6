// Package oversubscribe measures what guests do on what the owners of a node leave idle, and what that
// costs the owners, in real containers.
package oversubscribe
