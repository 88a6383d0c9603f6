// Package builtin lists the kinds of policies that Escher has. A new kind is added here.
package builtin
