// Package collect decides which waiting tasks and reservations collect capacity over time, on which
// nodes, when they give way or move on, and until when what they hold is lent. It directs them by
// types.Collect; the scheduler follows. Next is pure: a view and the state in, a plan out. All that
// must survive is in the store, so that another server can continue at any moment.
package collect
