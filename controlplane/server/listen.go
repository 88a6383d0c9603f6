package server

import (
	"net/url"

	"go.etcd.io/etcd/server/v3/embed"
)

const (
	// memberName is the name of the single member.
	memberName = "escher"
	// peerAddress is the address for other members. A member must have one, and it becomes part of
	// its data. Nothing listens there, and it contains no path of this machine, so that the data
	// can be moved.
	peerAddress = "/escher-single-member"
)

// listenOn makes etcd serve clients on a Unix socket only.
func listenOn(conf *embed.Config, socket string) {
	client := url.URL{Scheme: "unix", Path: socket}
	conf.ListenClientUrls = []url.URL{client}
	conf.AdvertiseClientUrls = []url.URL{client}
	conf.ListenClientHttpUrls = nil
	conf.ListenMetricsUrls = nil
	conf.ListenPeerUrls = nil
	conf.AdvertisePeerUrls = []url.URL{{Scheme: "unix", Path: peerAddress}}
	conf.InitialCluster = conf.InitialClusterFromName(memberName)
	// The gateway is JSON over HTTP, and would be a client of its own server.
	conf.EnableGRPCGateway = false
}
