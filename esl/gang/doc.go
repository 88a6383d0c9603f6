// Package gang has the policy that starts all tasks of a job together, or none.
package gang
