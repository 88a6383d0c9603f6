// Package decisions keeps the last decisions of policies in memory: what each looked at, what it
// decided, and why it did nothing.
package decisions
