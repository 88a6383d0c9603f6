// Package esl holds scheduling policies as libraries on top of the client: the scheduler knows none
// of them. A policy creates ephemeral resources and makes tasks request them. That steers its
// tasks, holds them back, or locks what they need.
//
//	jobs := builtin.New(client)
//	job, err := jobs.Submit(ctx, controlplane.Job{Name: "train", Tasks: esl.Copies(4, worker)}, gang.Gang{})
//
// At submission, Policy.Apply adds requests to the tasks. It is pure, and its results go into one
// transaction with the tasks. While the tasks last, Controller.Next makes decisions from a view of
// the cluster. It is pure, too. Package esl/keep runs it: in a server for jobs submitted detached,
// or in the application. See docs/policies.md.
//
// The policies are in packages below, one for each family; esl/builtin lists them.
package esl
