package doctor

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/escher-sched/escher/types/action"
)

func checkEtcd(f Facts) []Finding {
	if f.Etcd == nil {
		return nil
	}
	d := of("etcd")
	well := make([]string, 0, len(f.Etcd.Endpoints))
	for _, e := range f.Etcd.Endpoints {
		if e.Error != "" {
			d.problem(fmt.Sprintf("%s does not answer: %s", e.Address, e.Error), "start etcd there, let connections through, or correct %s", action.EtcdEndpoints.Of())
			continue
		}
		well = append(well, fmt.Sprintf("%s in %s", e.Address, e.Took.Round(100*time.Microsecond)))
		if e.Took > 100*time.Millisecond {
			d.warn(fmt.Sprintf("%s takes %s to answer", e.Address, e.Took.Round(time.Millisecond)), "use an etcd that is nearer, or give agents a longer %s", action.AgentTTL.Of())
		}
		if c := e.Certificate; c != nil {
			d.validity("the certificate of "+e.Address, c, f)
			if c.Wrong != "" {
				d.problem(fmt.Sprintf("the certificate of %s is not trusted: %s", e.Address, c.Wrong), "correct %s or %s, or have one issued for that name", action.EtcdCA.Of(), action.EtcdServerName.Of())
			}
		}
	}
	if f.Etcd.Error != "" && len(d.all) == 0 {
		d.problem(f.Etcd.Error, "%s", action.ShowState.Of())
	}
	return d.done(strings.Join(well, ", "))
}

// soon is how long before its end an expiring certificate results in a warning.
const soon = 30 * 24 * time.Hour

// validity adds a finding if a certificate is not valid, or expires soon.
func (d *diagnosis) validity(what string, c *Certificate, f Facts) {
	day := func(t time.Time) string { return t.UTC().Format("2006-01-02 15:04 MST") }
	switch {
	case f.Now.After(c.NotAfter):
		d.problem(fmt.Sprintf("%s has expired at %s", what, day(c.NotAfter)), "have it renewed; nothing has to be restarted, as it is read for each connection")
	case f.Now.Before(c.NotBefore):
		d.problem(fmt.Sprintf("%s is valid from %s on, and the clock here says %s", what, day(c.NotBefore), day(f.Now)), "set the clock: timedatectl")
	case f.Now.Add(soon).After(c.NotAfter):
		d.warn(fmt.Sprintf("%s expires at %s", what, day(c.NotAfter)), "have it renewed before that")
	}
}

func checkCredentials(f Facts) []Finding {
	if f.Etcd == nil || f.Etcd.Own == nil && f.Etcd.OwnError == "" {
		return nil
	}
	d := of("etcd credentials")
	if f.Etcd.OwnError != "" {
		d.problem("the certificate to show to etcd cannot be used: "+f.Etcd.OwnError, "give both %s and %s, readable, and of one another", action.EtcdCert.Of(), action.EtcdKey.Of())
		return d.all
	}
	d.validity("the certificate shown to etcd", f.Etcd.Own, f)
	if f.Etcd.KeyMode&0o077 != 0 {
		d.warn(fmt.Sprintf("the key %s can be read by others (%#o), who may do everything in the cluster with it", f.Etcd.KeyPath, f.Etcd.KeyMode), "chmod 600 %s", f.Etcd.KeyPath)
	}
	return d.done("valid until " + f.Etcd.Own.NotAfter.UTC().Format("2006-01-02"))
}

// fewOps is the number of operations per transaction below which checkDatabase warns.
const fewOps = 4096

func checkDatabase(f Facts) []Finding {
	if f.Cluster == nil {
		return nil
	}
	d, c := of("etcd database"), f.Cluster
	if c.Ops < fewOps {
		d.warn(fmt.Sprintf("etcd takes %d operations in a transaction: binding is slower, and so is granting a reservation over many nodes", c.Ops), "start etcd with --max-txn-ops=%d", fewOps)
	}
	switch {
	case c.Alarm:
		d.problem("etcd refuses writes, as its database is full", "the server makes room by itself; if it does not: etcdctl defrag, etcdctl alarm disarm, and a larger --quota-backend-bytes")
	case c.Quota > 0 && c.InUse > c.Quota/10*7:
		d.warn(fmt.Sprintf("%s of %s are in use: from 70 %% on no new task is admitted", bytesText(c.InUse), bytesText(c.Quota)), "%s, or start etcd with a larger --quota-backend-bytes", action.StopSome.Of())
	}
	if c.Quota == 0 {
		return d.done(fmt.Sprintf("%d operations a transaction", c.Ops))
	}
	return d.done(fmt.Sprintf("%d operations a transaction, %s of %s in use", c.Ops, bytesText(c.InUse), bytesText(c.Quota)))
}

func checkServers(f Facts) []Finding {
	if f.Cluster == nil {
		return nil
	}
	d, c := of("servers"), f.Cluster
	names := slices.Sorted(maps.Keys(c.Servers))
	switch {
	case c.ID == "" && len(names) == 0:
		d.problem("no server has run on this etcd: an agent waits for one", "%s", action.StartServer.Of())
	case len(names) == 0:
		d.problem("no server is alive: nothing new is bound, and nothing that ends is released", "%s", action.StartServer.Of())
	}
	if c.ID == "" { // of escher dev, whose cluster ends with it
		return d.done(strings.Join(names, ", "))
	}
	return d.done(fmt.Sprintf("%s of cluster %s", strings.Join(names, ", "), c.ID))
}

func checkName(f Facts) []Finding {
	if f.Cluster == nil {
		return nil
	}
	d := of("node")
	if f.Cluster.Lease != 0 && f.Cluster.Lease != f.Agent.Lease {
		d.problem(fmt.Sprintf("another agent is alive under the name %s, with another state directory", f.Plan.Node), "find the other one: %s; end it, or choose another name with %s", action.ListNodesFully.Of(), action.AgentName.Of())
	}
	switch {
	case f.Cluster.Lease != 0:
		return d.done(f.Plan.Node + " is alive")
	case f.Agent.Running:
		d.warn(fmt.Sprintf("the agent runs, and node %s is not alive in this cluster", f.Plan.Node), "look into its log; it may be of another cluster, or of another name (%s)", action.AgentName.Of())
	}
	return d.done(f.Plan.Node + " is not in use")
}

func checkVersions(f Facts) []Finding {
	if f.Cluster == nil {
		return nil
	}
	d, c := of("versions"), f.Cluster
	if f.Agent.Running && c.Version != "" && c.Version != f.Plan.Version {
		d.warn(fmt.Sprintf("the agent is of version %s, and this program is %s", c.Version, f.Plan.Version), "restart the agent with this program: systemctl restart escher-agent; its tasks run on")
	}
	var others []string
	for name, version := range c.Servers {
		if version != f.Plan.Version && version != "" {
			others = append(others, fmt.Sprintf("server %s is %s", name, version))
		}
	}
	if slices.Sort(others); len(others) > 0 {
		d.warn(fmt.Sprintf("this program is of version %s, and %s", f.Plan.Version, strings.Join(others, ", ")), "upgrade agents first, then servers: docs/operations.md, Upgrading")
	}
	if len(c.Versions) > 1 {
		var texts []string
		for _, version := range slices.Sorted(maps.Keys(c.Versions)) {
			texts = append(texts, fmt.Sprintf("%d of %s", c.Versions[version], version))
		}
		d.warn("the agents of the cluster are of several versions: "+strings.Join(texts, ", "), "upgrade the rest of them, before the servers")
	}
	return d.done(f.Plan.Version)
}
