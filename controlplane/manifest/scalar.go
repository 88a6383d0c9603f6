package manifest

import "github.com/escher-sched/escher/types"

// Scalars of package types, by the names that parameters of policies have them.
type (
	Duration = types.Duration
	Wait     = types.Wait
	Amount   = types.Amount
)

// AtOnce is a Wait of 0s.
const AtOnce = types.AtOnce
