package types

import "testing"

func TestValidatePolicies(t *testing.T) {
	good := Policies{Job: "j", Session: "s", Policies: []Policy{{Kind: "gang"}, {Kind: "gang", With: "{}"}, {Kind: "acme.com/even"}}}
	if err := good.Validate(); err != nil {
		t.Error(err)
	}
	for name, c := range map[string]struct {
		change func(*Policies)
		says   []string
	}{
		"none":        {func(p *Policies) { p.Policies = nil }, []string{"policies: is empty"}},
		"job":         {func(p *Policies) { p.Job = "a b" }, []string{"job: "}},
		"session":     {func(p *Policies) { p.Session = "/" }, []string{"session: "}},
		"no name":     {func(p *Policies) { p.Policies[0].Kind = "" }, []string{"policies[0].name: "}},
		"no domain":   {func(p *Policies) { p.Policies[1].Kind = "acme/even" }, []string{`policies[1].name: "acme/even" has no domain`, "acme.com/even"}},
		"domain":      {func(p *Policies) { p.Policies[2].Kind = ".com/even" }, []string{"policies[2].name: "}},
		"name":        {func(p *Policies) { p.Policies[2].Kind = "acme.com/even/odd" }, []string{"policies[2].name: "}},
		"all at once": {func(p *Policies) { p.Job, p.Policies[0].Kind = "?", "!" }, []string{"job: ", "policies[0].name: "}},
	} {
		t.Run(name, func(t *testing.T) {
			p := good
			p.Policies = append([]Policy(nil), good.Policies...)
			c.change(&p)
			refusal(t, p.Validate(), c.says...)
		})
	}
}
