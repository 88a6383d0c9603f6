// Package identity tells which cluster a store holds, and which history of it: the id of the
// cluster, and the epoch, which changes when the store is restored from a backup.
package identity
