package server

import (
	"net/url"

	"go.etcd.io/etcd/server/v3/embed"
)

const (
	// memberName is the name of the one member.
	memberName = "escher"
	// peerAddress is where other members would reach it. A member must have
	// such an address, and it becomes part of its data; nobody listens there,
	// and no path of this machine is in it, so that data can be moved.
	peerAddress = "/escher-single-member"
)

// listenOn makes etcd serve clients on a Unix socket, and listen nowhere else.
func listenOn(conf *embed.Config, socket string) {
	client := url.URL{Scheme: "unix", Path: socket}
	conf.ListenClientUrls = []url.URL{client}
	conf.AdvertiseClientUrls = []url.URL{client}
	conf.ListenClientHttpUrls = nil
	conf.ListenMetricsUrls = nil
	conf.ListenPeerUrls = nil
	conf.AdvertisePeerUrls = []url.URL{{Scheme: "unix", Path: peerAddress}}
	conf.InitialCluster = conf.InitialClusterFromName(memberName)
	// The gateway is JSON over HTTP; it would be a client of its own server.
	conf.EnableGRPCGateway = false
}
