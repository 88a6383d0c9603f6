// Package ahead has reservations for a time: what they lock is drained towards by backfill.
package ahead
