package etcdstore

import (
	"slices"
	"strings"
	"testing"

	"github.com/escher-sched/escher/types"
)

func TestAddressIsChecked(t *testing.T) {
	for says, a := range map[string]Address{
		"endpoints: is missing":        {},
		`"" is empty`:                  {Endpoints: SplitEndpoints("a:1,")},
		`"host" has no port`:           {Endpoints: []string{"host"}},
		`"https://host" has no host`:   {Endpoints: []string{"https://host"}},
		`"ftp://host:1" is no address`: {Endpoints: []string{"ftp://host:1"}},
		"is not encrypted":             {Endpoints: []string{"http://a:1"}, CACert: "ca.pem"},
		"only one of them":             {Endpoints: []string{"https://a:1"}, Key: "key.pem"},
		"readable files":               {Endpoints: []string{"https://a:1"}, CACert: "/nowhere/ca.pem"},
	} {
		if _, err := a.Config(); !types.Is(err, types.Invalid) || !strings.Contains(err.Error(), says) {
			t.Errorf("%+v: %v, want %q", a, err, says)
		}
	}
}

func TestAddressIsUsed(t *testing.T) {
	for endpoint, secure := range map[string]bool{
		"127.0.0.1:2379": false, "http://[::1]:2379": false, "unix:///run/etcd.sock": false, "https://etcd:2379": true,
	} {
		cfg, err := Address{Endpoints: []string{endpoint}}.Config()
		if err != nil || (cfg.TLS != nil) != secure || !slices.Equal(cfg.Endpoints, []string{endpoint}) {
			t.Errorf("%s: %+v, %v", endpoint, cfg, err)
		}
	}
}

func TestAddressFromEnvFillsIn(t *testing.T) {
	env := map[string]string{EnvEndpoints: "a:1,b:2", EnvCACert: "ca", EnvCert: "cert", EnvKey: "key", EnvServerName: "name"}
	got := Address{Cert: "mine", Key: "my key"}.Or(AddressFromEnv(func(name string) string { return env[name] }))
	if !slices.Equal(got.Endpoints, []string{"a:1", "b:2"}) || got.CACert != "ca" || got.Cert != "mine" || got.Key != "my key" || got.ServerName != "name" {
		t.Errorf("%+v", got)
	}
}
