// Package fgd is the experiment of the paper on fragmentation gradient descent. On the 1,213 nodes
// with devices of the openb trace, the tasks of the trace arrive in random order, followed by more
// of them until 130 % of all GPU is requested. Each is placed on arrival, or never; none ends. The
// figure is how much of all GPU they hold when as much is requested as exists.
package fgd
