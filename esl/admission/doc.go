// Package admission has the policies that decide when tasks may start: order, limits, and
// predecessors.
package admission
