// Package alphazero is the experiment of the paper on co-location and load balancing: AlphaZero on
// 32 nodes of four GPUs. Predictors, of one GPU each, spread evenly. Each has its generators, which
// need processors, on its own node.
package alphazero
