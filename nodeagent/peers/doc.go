// Package peers tells a task about its job: its place among the tasks, and their addresses.
package peers
