// Package esl holds scheduling policies as libraries, over the client alone: the
// scheduler knows none of them. A policy creates ephemeral resources and requests them;
// that steers its tasks, holds them back, or locks what they need.
//
//	jobs := builtin.New(client)
//	job, err := jobs.Submit(ctx, esl.Job{Name: "train", Tasks: esl.Copies(4, worker)}, gang.Gang{})
//
// What a policy asks for at submission it adds to the tasks (Policy.Apply): that is
// pure, and goes in one transaction with the tasks. What is to be done while they last
// it decides from a view of the cluster (Controller.Next): that is pure too, and done by
// esl/keep, in a server for what was submitted detached, or in the application.
// See docs/policies.md.
//
// The policies are in packages below, one for each family; esl/builtin has the list of them.
package esl
