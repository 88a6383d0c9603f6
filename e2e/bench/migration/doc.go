// Package migration is the experiment of the paper on migration. Of twelve devices on three nodes,
// five short jobs hold eight. A long job of four workers, one device each, holds the rest, spread
// over all nodes. When the first short job ends, all workers fit on one node.
package migration
