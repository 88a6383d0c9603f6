package alphazero

import (
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/escher-sched/escher/e2e/bench/rig"
	"github.com/escher-sched/escher/examples/alphazero/selfplay"
	"github.com/escher-sched/escher/types"
)

// A predictor and a generator are processes of their own, a core each. Pairs play one after the
// other, as each would have its own cores on a cluster. With only one machine, separated pairs talk
// over the loopback, without a wire.

const (
	// pairsInRound is the number of pairs that play; pairsQuick is for Quick.
	pairsInRound, pairsQuick = 12, 2
	// realNodes is the number of nodes for random placement: with more, few of the pairs would
	// ever be together.
	realNodes = 4
	// playName is the name of the predictor of a pair.
	playName = "predictor"
)

// playFor is how long a pair plays.
func playFor(cfg rig.Config) time.Duration {
	if cfg.Quick {
		return 100 * time.Millisecond
	}
	return 500 * time.Millisecond
}

// playArm lets pairs play. A draw decides for each whether its generator is on the node of its
// predictor.
func playArm(name string, together func(*rand.Rand) bool) rig.Arm {
	return rig.Arm{Name: name, Measure: func(ctx context.Context, cfg rig.Config) (rig.Figures, error) {
		random := rand.New(rand.NewPCG(rig.Seed, uint64(time.Now().UnixNano())))
		pairs := make([]bool, pairsInRound)
		if cfg.Quick {
			pairs = pairs[:pairsQuick]
		}
		for i := range pairs {
			pairs[i] = together(random)
		}
		return playPairs(ctx, cfg, pairs)
	}}
}

func always(*rand.Rand) bool { return true }

func never(*rand.Rand) bool { return false }

func onSomeNode(random *rand.Rand) bool { return random.IntN(realNodes) == 0 }

// playPairs lets pairs play, one after the other. It returns the positions per second, and the
// share of them played together.
func playPairs(ctx context.Context, cfg rig.Config, pairs []bool) (rig.Figures, error) {
	played, took, near := 0.0, 0.0, 0
	for _, together := range pairs {
		n, t, err := playPair(ctx, cfg, together)
		if err != nil {
			return nil, err
		}
		played, took, near = played+n, took+t.Seconds(), near+boolInt(together)
	}
	return rig.Figures{rig.Rate: played / took, randomTogether: float64(near) / float64(len(pairs))}, nil
}

// playPair lets a pair of processes play, and returns the number of judged positions and the time.
func playPair(ctx context.Context, cfg rig.Config, together bool) (played float64, took time.Duration, err error) {
	dir, err := os.MkdirTemp(sharedMemory(), "escher-bench-")
	if err != nil {
		return 0, 0, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	predictor, err := rig.Launch(cfg, rolePredictor, rolePredictor, rig.RoleConfig{Dir: dir, Name: playName})
	if err != nil {
		return 0, 0, err
	}
	defer predictor.Kill() // no cleanup is needed
	address, err := predictor.Ready(ctx)
	if err != nil {
		return 0, 0, err
	}
	node := dir
	if !together {
		node = filepath.Join(dir, "elsewhere")
	}
	generator, err := rig.Launch(cfg, roleGenerator, roleGenerator, rig.RoleConfig{Dir: node, Name: playName, Endpoint: address})
	if err != nil {
		return 0, 0, err
	}
	defer generator.Kill()
	if _, err := generator.Ready(ctx); err != nil {
		return 0, 0, err
	}
	if err := rig.Sleep(ctx, playFor(cfg)/4); err != nil { // warm up
		return 0, 0, err
	}
	return playWindow(ctx, generator, together, playFor(cfg))
}

// playWindow counts what a generator plays in a period.
func playWindow(ctx context.Context, generator *rig.Process, together bool, d time.Duration) (float64, time.Duration, error) {
	before, err := generator.Stats(ctx)
	if err != nil {
		return 0, 0, err
	}
	if before["together"] != float64(boolInt(together)) {
		return 0, 0, types.Errorf(types.Internal, "alphazero: the generator says that together is %g, want %d", before["together"], boolInt(together))
	}
	began := time.Now()
	if err := rig.Sleep(ctx, d); err != nil {
		return 0, 0, err
	}
	after, err := generator.Stats(ctx)
	return after["played"] - before["played"], time.Since(began), err
}

func boolInt(b bool) int {
	if b {
		return 1
	}
	return 0
}

// sharedMemory is a directory in memory; "", the usual temporary directory, if there is none.
func sharedMemory() string {
	const dir = "/dev/shm"
	if _, err := os.Stat(dir); err != nil {
		return ""
	}
	return dir
}

// The parts of a game, as processes.
const (
	rolePredictor = "predictor"
	roleGenerator = "generator"
)

// predictorPart is a predictor with one seat; its table is in its directory, under its name.
func predictorPart(cfg rig.RoleConfig) rig.Part {
	return rig.Part{Run: func(ctx context.Context, ready func(string)) error {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return err
		}
		predictor, err := selfplay.NewServer(filepath.Join(cfg.Dir, cfg.Name), 1, listener)
		if err != nil {
			return err
		}
		ready(listener.Addr().String())
		return predictor.Run(ctx)
	}}
}

// generatorPart is a generator, which looks for that table in its own directory; it counts the
// positions it plays.
func generatorPart(cfg rig.RoleConfig) rig.Part {
	var played, together atomic.Int64
	return rig.Part{
		Stats: func() map[string]float64 {
			return map[string]float64{"played": float64(played.Load()), "together": float64(together.Load())}
		},
		Run: func(ctx context.Context, ready func(string)) error {
			p, near, err := selfplay.Find(ctx, filepath.Join(cfg.Dir, cfg.Name), 0, cfg.Endpoint)
			if err != nil {
				return err
			}
			defer func() { _ = p.Close() }() // all positions are played
			together.Store(int64(boolInt(near)))
			ready("")
			return selfplay.Play(ctx, p, rand.New(rand.NewPCG(rig.Seed, 0)), &played)
		},
	}
}

// Parts are the parts of a game.
func Parts() rig.Parts {
	return rig.Parts{rolePredictor: predictorPart, roleGenerator: generatorPart}
}
