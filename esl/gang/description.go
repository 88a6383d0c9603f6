package gang

import "github.com/escher-sched/escher/esl"

// The description stands apart from the policy, whose lines e2e/bench compares with the paper's.

// Describe says what the policy does, and its flags.
func (Gang) Describe() esl.Description {
	return esl.Description{Does: "all tasks are placed at once, or none", Flags: []esl.Flag{{
		Name: "gang", Usage: "number of tasks, all placed at once or none", CountsTasks: true,
		Number: func(n int) (esl.Parameters, error) {
			switch {
			case n < 0:
				return nil, esl.Invalid("gang: %d is negative: give how many tasks are placed at once", n)
			case n == 0:
				return nil, esl.Invalid("gang: 0 tasks are none: give how many are placed at once, or leave --gang out")
			}
			return esl.Parameters{}, nil
		},
		With: []esl.Flag{{
			Name: "per-node", Usage: "with --gang: how many share each node; with --apart: how many may",
			Number: esl.Sets[int]("perNode"), Alone: "is given without --gang or --apart: say which it is of",
		}, {
			Name: "together", Text: esl.Sets[string]("in"),
		}, {
			Name: "on-loss", Usage: "when a task of a gang, or of tasks that are together, is lost: fail, restart or alone",
			Text: esl.Sets[string]("onLoss"), Values: esl.Values{Words: esl.Loss("").Choices()},
			Alone: "is given without --gang or --together: say which it is of; --restart is about one task",
		}},
	}}}
}
