// Package accounting keeps the history of a cluster: a record of every ended task and of every ended
// attempt, in a SQLite file of each server. A Recorder writes it from the watch, and answers
// questions about it.
package accounting
