package wordcount

import (
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/escher-sched/escher/e2e/bench/rig"
)

// The model of WordCount: how long mappers take that read their chunk from the disk of their own
// node, or over the network from another one. Times are experiment times, in seconds.
const (
	// slotsOnNode is how many tasks a node runs at once, one per core.
	slotsOnNode = 4
	// chunkCopies is the number of nodes with a copy of a chunk, at most all nodes.
	chunkCopies = 3
	// chunkSize is the size of a chunk, in MB.
	chunkSize = 512.0
	// diskSpeed is how many MB/s each mapper reads from its own node.
	diskSpeed = 200.0
	// linkSpeed is the link of a node to the others, 1 Gbit/s each way, in MB/s. Incoming reads
	// share it equally, and so do outgoing ones: a read is as fast as the lesser of its two parts.
	// The network between the links is never full.
	linkSpeed = 125.0
	// countSpeed is how many MB/s of read data a mapper counts.
	countSpeed = 64.0
	// reduceTime is how long each reducer takes: a chunk has few different words, so reducers fetch
	// little from anywhere.
	reduceTime = 4 * time.Second
)

// placeChunks returns the nodes of each of n chunks: the same every time.
func placeChunks(n int, nodes []string) [][]string {
	random := rand.New(rand.NewPCG(rig.Seed, rig.Seed))
	all := make([][]string, n)
	for i := range all {
		for _, at := range random.Perm(len(nodes))[:min(chunkCopies, len(nodes))] {
			all[i] = append(all[i], nodes[at])
		}
	}
	return all
}

// nameNodes chooses a node for each chunk like a program that knows the copies: the one chosen
// least often among those with a copy.
func nameNodes(chunks [][]string) []string {
	chosen, all := make(map[string]int), make([]string, len(chunks))
	for i, nodes := range chunks {
		all[i] = slices.MinFunc(nodes, func(a, b string) int { return chosen[a] - chosen[b] })
		chosen[all[i]]++
	}
	return all
}

// remoteRead is a chunk in transfer from one node to another.
type remoteRead struct {
	chunk    int
	from, to string
	left     float64 // MB
}

// timeModel computes when started mappers end. It has no clock: callers pass the time.
type timeModel struct {
	chunks [][]string
	at     float64
	reads  []*remoteRead
	// ends is the end time of mappers with all their data, by chunk.
	ends map[int]float64
	// in and out are the numbers of reads of a node.
	in, out map[string]int
	// local is how many mappers have read from their own node.
	local int
	ended []int
}

func newTimeModel(chunks [][]string) *timeModel {
	return &timeModel{chunks: chunks, ends: make(map[int]float64), in: make(map[string]int), out: make(map[string]int)}
}

// begin records that the mapper of a chunk begins on a node. A remote read uses the copy whose node
// serves the fewest others.
func (m *timeModel) begin(at float64, chunk int, node string) {
	m.advance(at)
	if slices.Contains(m.chunks[chunk], node) {
		m.local++
		m.ends[chunk] = at + chunkSize/diskSpeed + chunkSize/countSpeed
		return
	}
	from := slices.MinFunc(m.chunks[chunk], func(a, b string) int { return m.out[a] - m.out[b] })
	m.in[node]++
	m.out[from]++
	m.reads = append(m.reads, &remoteRead{chunk: chunk, from: from, to: node, left: chunkSize})
}

// rate is the current speed of a read, in MB/s.
func (m *timeModel) rate(r *remoteRead) float64 {
	return linkSpeed / float64(max(m.in[r.to], m.out[r.from]))
}

// next is the time of the next event; +Inf means never.
func (m *timeModel) next() float64 {
	next := math.Inf(1)
	for _, end := range m.ends {
		next = min(next, end)
	}
	for _, r := range m.reads {
		next = min(next, m.at+r.left/m.rate(r))
	}
	return next
}

// almostNothing is the size of a chunk's remainder that is only rounding error.
const almostNothing = 1e-6

// advance advances to a time, event by event, as each changes the speed of the others.
func (m *timeModel) advance(to float64) {
	for m.at < to {
		at := min(to, m.next())
		for _, r := range m.reads {
			r.left -= m.rate(r) * (at - m.at)
		}
		m.at = at
		m.reads = slices.DeleteFunc(m.reads, func(r *remoteRead) bool {
			if r.left > almostNothing {
				return false
			}
			m.in[r.to]--
			m.out[r.from]--
			m.ends[r.chunk] = at + chunkSize/countSpeed
			return true
		})
		for chunk, end := range m.ends {
			if end <= at {
				m.ended = append(m.ended, chunk)
				delete(m.ends, chunk)
			}
		}
	}
}

// take returns the chunks whose mappers have ended since the last call, in order.
func (m *timeModel) take() []int {
	ended := slices.Sorted(slices.Values(m.ended))
	m.ended = nil
	return ended
}
