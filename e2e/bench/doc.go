// Package bench measures Escher against the floor under it: etcd's own performance with
// transactions of the same shape, over the same transport, in the same run.
//
// It has the program escher-bench, the list of all scenarios, and the scenarios about the speed of
// single operations: to submit, bind, start and end tasks. The experiments with policies and traces
// are packages of their own below it. All of them stand on package rig.
package bench
