// Package esltest runs jobs with policies on a hollow cluster, for tests of policies.
package esltest
