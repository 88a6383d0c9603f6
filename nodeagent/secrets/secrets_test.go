package secrets

import (
	"fmt"
	"strings"
	"testing"

	"github.com/escher-sched/escher/types"
)

// TestGive turns values into variables and files, or says what is missing.
func TestGive(t *testing.T) {
	large := strings.Repeat("x", types.MaxSecretValue-1)
	values := Values{"db": {"password": []byte("se=same\n"), "bin": {1, 0}}, "big": {"a": []byte(large), "b": []byte(large)}, "odd": {"../x": nil}}
	for _, c := range []struct {
		uses  []types.SecretUse
		want  string
		class types.Class
	}{
		{nil, "[] []", 0},
		{[]types.SecretUse{{Name: "db", Env: []string{"A=password", "B=password"}}}, "[A=se=same\n B=se=same\n] []", 0},
		{[]types.SecretUse{{Name: "db", Dir: "/s"}, {Name: "db", Dir: "/t", Env: []string{"A=password"}}}, "[A=se=same\n] [{/s map[bin:\x01\x00 password:se=same\n]} {/t map[bin:\x01\x00 password:se=same\n]}]", 0},
		{[]types.SecretUse{{Name: "tls", Dir: "/s"}}, "find secret tls: the server has sent none", types.NotFound},
		{[]types.SecretUse{{Name: "db", Env: []string{"A=user"}}}, "find secret db: it lacks the value user", types.NotFound},
		{[]types.SecretUse{{Name: "db", Env: []string{"A=bin"}}}, "secret db: value bin has a zero byte", types.Invalid},
		{[]types.SecretUse{{Name: "odd", Dir: "/s"}}, `secret odd: "../x" contains`, types.Invalid},
		{[]types.SecretUse{{Name: "big", Env: []string{"A=a"}}, {Name: "big", Env: []string{"B=b", "C=a"}}}, "secrets: the variables have 196614 bytes", types.Invalid},
	} {
		env, dirs, err := Give(c.uses, values)
		switch got := fmt.Sprintf("%s %s", env, dirs); {
		case c.class == 0 && (err != nil || got != c.want):
			t.Errorf("%+v: %q, %v", c.uses, got, err)
		case c.class != 0 && (!types.Is(err, c.class) || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "same") || env != nil || dirs != nil):
			t.Errorf("%+v: %v, want %q", c.uses, err, c.want)
		}
	}
}
