package run

import (
	"fmt"
	"strings"
	"testing"

	"github.com/escher-sched/escher/types"
)

// TestParseSecret reads how a task gets a secret.
func TestParseSecret(t *testing.T) {
	for text, want := range map[string]types.SecretUse{
		"db":                          {Name: "db", Dir: "/run/secrets/db"},
		"db,target=/s":                {Name: "db", Dir: "/s"},
		"db:password,env=A":           {Name: "db", Env: []string{"A=password"}},
		"db:tls.key,env=A,env=B":      {Name: "db", Env: []string{"A=tls.key", "B=tls.key"}},
		"db,target=relative/is/later": {Name: "db", Dir: "relative/is/later"},
	} {
		if got, err := parseSecret(text); err != nil || fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%s: %+v, %v, want %+v", text, got, err, want)
		}
	}
	for text, says := range map[string]string{
		"":                         "has no name",
		":password,env=A":          "has no name",
		"db:,env=A":                "has no name",
		"db,":                      "",
		"db,target=":               "has an option that is unknown or empty",
		"db,id=x":                  "has an option that is unknown or empty",
		"db,source=db,target=/s":   "has an option that is unknown or empty",
		"db,env=A":                 "does not say which value the variable has",
		"db:password":              "has a value, and no variable for it",
		"db:password,target=/s":    "has one value or directory too many",
		"db,target=/s,target=/t":   "has one value or directory too many",
		"db:password,env=A,":       "has an option that is unknown or empty",
		"db:password,env=A,x=y":    "has an option that is unknown or empty",
		"db:password,env=A,target": "has an option that is unknown or empty",
	} {
		_, err := parseSecret(text)
		if says == "" {
			if err != nil {
				t.Errorf("%s: %v", text, err)
			}
			continue
		}
		if !types.Is(err, types.Invalid) || !strings.HasPrefix(err.Error(), "secret: ") || !strings.Contains(err.Error(), says+": write NAME") {
			t.Errorf("%s: %v, want %q", text, err, says)
		}
	}
}
