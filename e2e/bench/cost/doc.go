// Package cost measures what waiting jobs with policies cost: while nothing changes, until all is decided
// after they were submitted, at a change, and in the time of a submission to an empty cluster.
package cost
