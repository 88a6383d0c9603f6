// Package quiet has the policy that keeps apart the kinds of jobs that slow one another down. It learns
// from the pressure that nodes measure how much each kind loses next to each other one.
//
// What is learned is in pools of the policy, so that any program that runs the policy knows it. Where
// tasks of a kind may begin is a resource of the policy on nodes, which all tasks of the kind request.
package quiet
