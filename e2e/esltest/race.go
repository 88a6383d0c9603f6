//go:build race

package esltest

// Raced reports whether the race detector watches the tests, which makes them about ten times as slow.
const Raced = true
