// Package selfplay is what AlphaZero does most of the time, without its network: generators play
// games, and for each position ask a predictor, which has a GPU, how good the moves are. Generators
// on the predictor's node ask by shared memory, others by TCP.
package selfplay

import (
	"math"
	"math/rand/v2"
	"unsafe"
)

// The input of AlphaZero for Go: planes of 19 by 19 points, of the stones of both players at the
// last eight moves, and of the player whose turn it is.
const (
	Points = 19 * 19
	Planes = 17
	// Moves are the points, and the pass.
	Moves = Points + 1
)

// Board is a position, 24,548 bytes.
type Board [Planes * Points]float32

// Answer is the prediction for a position: how likely each move is the best, and last the value of
// the position, from -1 to 1.
type Answer [Moves + 1]float32

// Deal makes a position of random stones, in place of the search that finds one.
func (b *Board) Deal(random *rand.Rand) {
	bits := uint64(0)
	for i := range b {
		if i%64 == 0 {
			bits = random.Uint64()
		}
		b[i] = float32(bits & 1)
		bits >>= 1
	}
}

// Predict computes a prediction, in place of the network on a GPU: it reads the whole position, and
// takes some microseconds.
func Predict(b *Board, a *Answer) {
	clear(a[:])
	sum := float32(0)
	for p := range Planes {
		weight := 1 / float32(p+1)
		if p%2 == 1 {
			weight = -weight
		}
		for i, x := range b[p*Points : (p+1)*Points] {
			a[i] += weight * x
		}
	}
	for _, x := range a[:Points] {
		sum += x
	}
	a[Moves] = float32(math.Tanh(float64(sum / Points)))
}

// Best is the move that is most likely the best.
func (a *Answer) Best() int {
	best := 0
	for i, x := range a[:Moves] {
		if x > a[best] {
			best = i
		}
	}
	return best
}

// bytes are those of a position in memory: both sides have the same layout.
func (b *Board) bytes() []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(b)), unsafe.Sizeof(*b))
}

func (a *Answer) bytes() []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(a)), unsafe.Sizeof(*a))
}
