// Package estimate has the policy that requests what past runs used.
//
// The server counts how long the runs of each name took and what they used: types.History. The policy reads
// these numbers at the submission. See docs/policies/estimates.md.
package estimate
