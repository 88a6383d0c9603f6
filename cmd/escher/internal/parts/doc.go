// Package parts is what clusters are made of, however many processes and machines
// they are: the server's part, an agent, and what starts and stops them in order.
package parts
