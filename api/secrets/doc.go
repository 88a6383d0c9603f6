// Package secrets seals the values of secrets with a key that only servers hold, stores them, and opens
// those that an attempt names for the node to which it is bound.
package secrets
