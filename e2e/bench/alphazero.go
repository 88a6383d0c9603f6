package bench

import (
	"context"

	"github.com/escher-sched/escher/examples/alphazero/selfplay"
)

// The experiment of the paper on co-location and load balancing: AlphaZero on 32 nodes of four
// GPUs. Predictors, of one GPU each, spread evenly. Each has its generators, which need processors,
// on its own node.

// alphaScenarios are about tasks that belong together, and apart from others.
func alphaScenarios() []scenario {
	return []scenario{
		{name: "alphazero", about: "predictors spread, and generators beside theirs: until all are bound, over nodes that are named; then positions a second of real processes, by shared memory over an unaware placement",
			full: size{32, 64, 5}, quick: size{32, 64, 1}, run: runAlphaZero},
	}
}

// The figures of a placement, of its performance, and of pairs placed at random.
const (
	alphaSame     = "identical"
	alphaTogether = "unaware_together"
	alphaRandom   = "at_random_together"
)

// runAlphaZero places games, and lets pairs of processes play.
func runAlphaZero(ctx context.Context, cfg Config) ([]Row, error) {
	place, together, apart, random := arm{"placement", measureAlphaPlacement}, playArm("together", always), playArm("apart", never), playArm("at random", onSomeNode)
	s, err := interleave(ctx, cfg, place, together, apart, random)
	if err != nil {
		return nil, err
	}
	of := func(figure string) []float64 { return s.of(place.name, figure) }
	placed := newRow(cfg, "alphazero", "ms", of("esl_ms")).over("hard-coded", of("esl_ms"), of("named_ms")).
		detail(alphaSame, of(alphaSame)).detail("unaware_ms", of("unaware_ms")).detail(alphaTogether, of(alphaTogether)).
		detail("lines", []float64{selfplay.Lines}).found(s.violations(place.name))

	near, far, mixed := s.of(together.name, rate), s.of(apart.name, rate), s.of(random.name, rate)
	unaware, expected := expectedRates(of(alphaTogether), near, far), expectedRates(s.of(random.name, alphaRandom), near, far)
	played := newRow(cfg, "alphazero-play", "positions/s", near).over("unaware", near, unaware).
		detail("shared_us", inverse(near)).detail("tcp_us", inverse(far)).
		detail(alphaRandom, s.of(random.name, alphaRandom)).detail("at_random_ratio", ratios(near, mixed)).detail("at_random_over_expected", ratios(mixed, expected))
	return []Row{
		*placed.require(cfg.Must, target{figure: alphaSame, must: 1, unit: " identical"}),
		*played.require(cfg.Must, target{figure: ratio, must: 1.5}),
	}, nil
}

// expectedRates are the rates of pairs of which a part is together, given the rates of pairs that
// are together and apart.
func expectedRates(part, together, apart []float64) []float64 {
	var all []float64
	for i := range min(len(part), len(together), len(apart)) {
		all = append(all, part[i]*together[i]+(1-part[i])*apart[i])
	}
	return all
}

// inverse is the time of one, in microseconds, for rates per second.
func inverse(rates []float64) []float64 {
	var all []float64
	for _, x := range rates {
		all = append(all, 1e6/x)
	}
	return all
}
