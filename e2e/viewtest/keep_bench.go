package viewtest

import "github.com/escher-sched/escher/esl"

// Still is a Controller without work.
type Still struct{}

func (Still) Kind() string { return "still" }

func (Still) Apply(*esl.Group) error { return nil }

func (Still) Next(s *esl.State) esl.Plan { _ = s.Ended(); return esl.Plan{} }
