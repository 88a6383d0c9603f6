package alphazero

import (
	"context"

	"github.com/escher-sched/escher/e2e/bench/rig"
	"github.com/escher-sched/escher/examples/alphazero/selfplay"
)

// Scenarios returns the scenario about tasks that belong together, and apart from others.
func Scenarios() []rig.Scenario {
	return []rig.Scenario{
		{Name: "alphazero", About: "predictors spread, and generators beside theirs: until all are bound, over nodes that are named; then positions a second of real processes, by shared memory over an unaware placement",
			Full: rig.Size{Nodes: 32, Tasks: 64, Rounds: 5}, Quick: rig.Size{Nodes: 32, Tasks: 64, Rounds: 1}, Run: runAlphaZero},
	}
}

// The figures of a placement, of its performance, and of pairs placed at random.
const (
	sameLayout      = "identical"
	unawareTogether = "unaware_together"
	randomTogether  = "at_random_together"
)

// runAlphaZero places games, and lets pairs of processes play.
func runAlphaZero(ctx context.Context, cfg rig.Config) ([]rig.Row, error) {
	place, together, apart, random := rig.Arm{Name: "placement", Measure: measurePlacement}, playArm("together", always), playArm("apart", never), playArm("at random", onSomeNode)
	s, err := rig.Interleave(ctx, cfg, place, together, apart, random)
	if err != nil {
		return nil, err
	}
	of := func(figure string) []float64 { return s.Of(place.Name, figure) }
	placed := rig.NewRow(cfg, "alphazero", "ms", of("esl_ms")).Over("hard-coded", of("esl_ms"), of("named_ms")).
		AddDetail(sameLayout, of(sameLayout)).AddDetail("unaware_ms", of("unaware_ms")).AddDetail(unawareTogether, of(unawareTogether)).
		AddDetail("lines", []float64{selfplay.Lines}).AddViolations(s.Violations(place.Name))

	near, far, mixed := s.Of(together.Name, rig.Rate), s.Of(apart.Name, rig.Rate), s.Of(random.Name, rig.Rate)
	unaware, expected := expectedRates(of(unawareTogether), near, far), expectedRates(s.Of(random.Name, randomTogether), near, far)
	played := rig.NewRow(cfg, "alphazero-play", "positions/s", near).Over("unaware", near, unaware).
		AddDetail("shared_us", inverse(near)).AddDetail("tcp_us", inverse(far)).
		AddDetail(randomTogether, s.Of(random.Name, randomTogether)).AddDetail("at_random_ratio", rig.Ratios(near, mixed)).AddDetail("at_random_over_expected", rig.Ratios(mixed, expected))
	return []rig.Row{
		*placed.Require(cfg.Must, rig.Target{Figure: sameLayout, Must: 1, Unit: " identical"}),
		*played.Require(cfg.Must, rig.Target{Figure: rig.Ratio, Must: 1.5}),
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
