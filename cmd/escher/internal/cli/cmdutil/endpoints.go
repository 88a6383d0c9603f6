package cmdutil

import (
	"github.com/spf13/pflag"

	"github.com/escher-sched/escher/controlplane/etcdstore"
)

// AddEndpointFlags adds the flags with the address of etcd.
func (f *Factory) AddEndpointFlags(flags *pflag.FlagSet) {
	flags.StringSliceVar(&f.Given.Endpoints, "endpoints", nil, "etcd's addresses, with commas between them, instead of the directory (ESCHER_ENDPOINTS)")
	flags.StringVar(&f.Given.CACert, "cacert", "", "file of the authorities that etcd's certificate may come from (ESCHER_CACERT)")
	flags.StringVar(&f.Given.Cert, "cert", "", "file of the certificate to show to etcd (ESCHER_CERT)")
	flags.StringVar(&f.Given.Key, "key", "", "file of its key (ESCHER_KEY)")
	flags.StringVar(&f.Given.ServerName, "servername", "", "name that etcd's certificate is for, if not its host (ESCHER_SERVERNAME)")
}

// EtcdConfig returns the address of etcd from flags, environment or context. Invalid: none of them
// has it.
func (f *Factory) EtcdConfig() (etcdstore.Config, error) {
	place, err := f.Place()
	if err != nil {
		return etcdstore.Config{}, err
	}
	address := place.Address
	if place.Server != "" {
		if address, err = place.Etcd(); err != nil {
			return etcdstore.Config{}, err
		}
	}
	return address.Config()
}

// StoreConfig is EtcdConfig for a program that also works through the gateway of a server, with a token.
func (f *Factory) StoreConfig() (etcdstore.Config, error) {
	place, err := f.Place()
	if err != nil {
		return etcdstore.Config{}, err
	}
	if place.Server != "" {
		return place.Store()
	}
	return place.Address.Config()
}
