package viewtest

import "github.com/escher-sched/escher/esl"

// Still is a Controller that has nothing to do.
type Still struct{}

func (Still) Kind() string { return "still" }

func (Still) Apply(*esl.Group) error { return nil }

func (Still) Next(s *esl.State) esl.Plan { _ = s.Ended(); return esl.Plan{} }
