//go:build linux

package agent

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/escher-sched/escher/cmd/escher/internal/cli/cmdutil"
	"github.com/escher-sched/escher/cmd/escher/internal/howto"
	"github.com/escher-sched/escher/cmd/escher/internal/parts"
	"github.com/escher-sched/escher/cmd/escher/internal/table"
	"github.com/escher-sched/escher/controlplane/etcdstore"
	"github.com/escher-sched/escher/controlplane/server"
	"github.com/escher-sched/escher/controlplane/sockets"
	"github.com/escher-sched/escher/nodeagent/machine/cgroup"
	"github.com/escher-sched/escher/nodeagent/machine/doctor"
	"github.com/escher-sched/escher/types"
	"github.com/escher-sched/escher/types/words"
)

const doctorHelp = `Finds problems that an agent would have on this machine, and how to fix them. It needs no
cluster; with --endpoints it also checks the cluster and the connection to it. With
--server it expects no port of the agent. Give it the flags of the agent.

Each finding is ok, a warning or a problem. It changes nothing: a file that it writes
below --state-dir to test the disk is removed again. The exit code is 1 if there is a
problem, else 0.

  escher node doctor
  escher node doctor --endpoints https://10.0.0.1:2379 --cacert ca.pem --cert c.pem --key c.key`

// doctorFlags describe the agent for which the machine is checked: they are those of the agent.
type doctorFlags struct {
	node, containerd, stateDir string
	listen, advertise          string
	cert, key, ports           string
	driver                     cgroup.Driver
	cdiDirs                    []string
	smi                        string
}

// NewNodeDoctor returns the command that finds problems of this machine.
func NewNodeDoctor(f *cmdutil.Factory) *cobra.Command {
	var flags doctorFlags
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Find problems of this machine as a node, and how to fix them",
		Long:  doctorHelp,
		Args:  cmdutil.Exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			place, err := f.Place()
			if err != nil {
				return err
			}
			plan, err := flags.plan(place.Endpoints)
			if err != nil {
				return err
			}
			if place.Server != "" && flags.listen == "" {
				plan.Listen, plan.Address, plan.Local, plan.TLSCert = "", "", false, ""
			}
			return diagnose(f, cmd.Context(), plan, doctor.Source{CDIDirs: flags.cdiDirs, SMI: flags.smi, Etcd: place.Address, Usage: usageOf})
		},
	}
	set := cmd.Flags()
	set.StringVar(&flags.node, "node", "", "name of the node; default: the host's")
	set.StringVar(&flags.containerd, "containerd", "", ContainerdHelp)
	set.StringVar(&flags.stateDir, "state-dir", defaultStateDir, "directory of the agent")
	set.StringVar(&flags.listen, "listen", "", listenHelp)
	set.StringVar(&flags.advertise, "advertise", "", "host:port at which other machines reach the API; default: the address from which this machine reaches etcd")
	set.StringVar(&flags.cert, "tls-cert", "", "file of the API's certificate")
	set.StringVar(&flags.key, "tls-key", "", "file of its key")
	set.StringVar((*string)(&flags.driver), "cgroup-driver", "", cgroupDriverHelp)
	set.StringVar(&flags.ports, "ports", defaultPorts, "ports to give to tasks, FIRST-LAST, or none")
	set.StringArrayVar(&flags.cdiDirs, "cdi-dir", nil, "directory of CDI specifications; repeat for several; default: /etc/cdi and /var/run/cdi")
	set.StringVar(&flags.smi, "nvidia-smi", "", "path of nvidia-smi; default: the one in PATH")
	return cmd
}

// plan returns the agent that the flags describe.
func (d *doctorFlags) plan(endpoints []string) (doctor.Plan, error) {
	dir, err := filepath.Abs(d.stateDir)
	if err != nil {
		return doctor.Plan{}, types.Errorf(types.Invalid, "state-dir: %q: %w: give an absolute path", d.stateDir, err)
	}
	ports, err := parsePorts(d.ports)
	if err != nil {
		return doctor.Plan{}, err
	}
	if _, err := (cgroup.Facts{Systemd: true}).Choose(d.driver); err != nil { // the facts of this machine become findings
		return doctor.Plan{}, types.Errorf(types.Invalid, "cgroup-driver: %w", err)
	}
	listen, local := parts.APIAddress(d.listen, d.cert != "")
	host, port, err := net.SplitHostPort(listen)
	if err != nil {
		return doctor.Plan{}, types.Errorf(types.Invalid, "listen: %q is not host:port: write it like :7421", listen)
	}
	if !local {
		host = parts.HostTowards(endpoints)
	}
	address := containerdAddress(d.containerd)
	p := doctor.Plan{
		Node: d.node, NodeGiven: d.node != "", StateDir: dir, SocketDir: sockets.Dir(dir),
		Containerd: address, Named: address != "" && address == d.containerd,
		Listen: listen, Local: local && d.advertise == "", Address: cmdutil.First(d.advertise, net.JoinHostPort(host, port)),
		TLSCert: d.cert, TLSKey: d.key, Ports: ports, CgroupDriver: d.driver, Version: cmdutil.Version(),
	}
	if !p.NodeGiven {
		p.Node, _ = os.Hostname() // a bad name becomes a finding
	}
	return p, nil
}

// diagnose checks the machine, prints the findings, and exits with 1 if there is a problem.
func diagnose(f *cmdutil.Factory, ctx context.Context, plan doctor.Plan, src doctor.Source) error {
	done := f.Progress("looking at this machine")
	facts := doctor.Gather(ctx, plan, src)
	done()
	if err := ctx.Err(); err != nil {
		return err
	}
	found := withCommands(doctor.Diagnose(facts))
	err := f.Show(found, string(doctor.Worst(found)), func(io.Writer) error { return printFindings(f.Raw(), found, f.Output().Color) })
	if err == nil && doctor.Worst(found) == doctor.Problem {
		err = cmdutil.Ended{Code: types.Internal.ExitCode()}
	}
	return err
}

// withCommands spells out the commands in remedies.
func withCommands(found []doctor.Finding) []doctor.Finding {
	for i := range found {
		found[i].Remedy = found[i].Remedy.In(howto.Say)
	}
	return found
}

// usageOf returns how full etcd is.
func usageOf(ctx context.Context, store *etcdstore.Store) (inUse, quota int64, alarm bool, err error) {
	u, err := server.NewMaintenance(store.Client(), 0).Usage(ctx)
	return u.InUse, u.Quota, u.Alarm, err
}

// printFindings prints findings, each with its remedy below it, and their number.
func printFindings(w io.Writer, found []doctor.Finding, color bool) error {
	wide := 0
	count := make(map[doctor.Status]int)
	for _, x := range found {
		wide = max(wide, len(x.Check))
		count[x.Status]++
	}
	for _, x := range found {
		status := fmt.Sprintf("%-7s", x.Status)
		if color {
			status = paintStatus(x.Status, status)
		}
		fmt.Fprintf(w, "%s  %-*s  %s\n", status, wide, x.Check, table.Line(x.Message))
		if !x.Remedy.IsZero() {
			fmt.Fprintf(w, "%-*s  → %s\n", len("warning")+2+wide, "", table.Line(x.Remedy.String()))
		}
	}
	_, err := fmt.Fprintf(w, "\n%s, %s, %d ok\n", words.Count(count[doctor.Problem], "problem"), words.Count(count[doctor.Warning], "warning"), count[doctor.OK])
	return err
}

// paintStatus colors a status by its severity.
func paintStatus(s doctor.Status, text string) string {
	color := map[doctor.Status]string{doctor.OK: "32", doctor.Warning: "33", doctor.Problem: "31"}[s]
	return "\x1b[" + color + "m" + text + "\x1b[0m"
}
