// Package interference measures how much slower a fixed amount of work is next to loud tasks, in real
// containers: where nodes are drawn at random, and where the policy quiet chooses them.
package interference
