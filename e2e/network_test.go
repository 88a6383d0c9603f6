package e2e

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// network is a bridge with hosts, each in its own network namespace. The processes of the test
// itself are at the bridge, at the lowest address.
type network struct {
	t  *testing.T
	id string
	// prefix and first are the address before the first host's: there are up to 13.
	prefix string
	first  int
	hosts  int
}

// networks counts the networks of this process: concurrent tests have one each.
var networks atomic.Int32

// newNetwork makes the bridge; at the end of the test it and the hosts are gone.
func newNetwork(t *testing.T) *network {
	t.Helper()
	return numbered(t, int(networks.Add(1)-1)%15+1)
}

// numbered makes one of the 16 networks that a process can have.
func numbered(t *testing.T, number int) *network {
	t.Helper()
	pid := os.Getpid() % 65536
	n := &network{
		t: t, id: fmt.Sprintf("esc%x.%x", pid, number),
		prefix: fmt.Sprintf("10.%d.%d.", 200+pid>>8%50, pid%256), first: number*16 + 1,
	}
	n.clear() // the remains of a killed test in a process of the same number
	t.Cleanup(n.clear)
	n.ip("link", "add", n.id, "type", "bridge")
	n.ip("addr", "add", n.address(0)+"/28", "dev", n.id)
	n.ip("link", "set", n.id, "up")
	return n
}

// clear removes everything with a name of the network. Its cables disappear with the hosts, but
// some time later.
func (n *network) clear() {
	n.t.Helper()
	var said []byte
	if !eventually(func() bool {
		hosts, _ := filepath.Glob("/run/netns/" + n.id + "-*") // the pattern is valid
		ports, _ := filepath.Glob("/sys/class/net/" + n.id + "p*")
		bridges, _ := filepath.Glob("/sys/class/net/" + n.id)
		for _, path := range hosts {
			said, _ = exec.Command("ip", "netns", "del", filepath.Base(path)).CombinedOutput() // it is checked again
		}
		for _, path := range slices.Concat(ports, bridges) {
			said, _ = exec.Command("ip", "link", "del", filepath.Base(path)).CombinedOutput() // it may just be gone
		}
		return len(hosts)+len(ports)+len(bridges) == 0
	}) {
		n.t.Errorf("left: network %s: %s", n.id, said)
	}
}

// name is the name of the i-th host, from 1 on.
func (n *network) name(i int) string { return n.id + "-" + strconv.Itoa(i) }

// address is the address of the i-th host; 0 is the test itself.
func (n *network) address(i int) string { return n.prefix + strconv.Itoa(n.first+i) }

// port is the bridge's end of the cable of the i-th host.
func (n *network) port(i int) string { return n.id + "p" + strconv.Itoa(i) }

// add adds a host and returns its number.
func (n *network) add() int {
	n.t.Helper()
	n.hosts++
	i, inside := n.hosts, n.id+"h"
	n.ip("netns", "add", n.name(i))
	n.ip("link", "add", n.port(i), "type", "veth", "peer", "name", inside, "netns", n.name(i))
	n.ip("link", "set", n.port(i), "master", n.id, "up")
	n.ip("-n", n.name(i), "link", "set", "lo", "up")
	n.ip("-n", n.name(i), "addr", "add", n.address(i)+"/28", "dev", inside)
	n.ip("-n", n.name(i), "link", "set", inside, "up")
	return i
}

// plug connects the cable of a host, or pulls it out.
func (n *network) plug(i int, in bool) {
	n.t.Helper()
	n.ip("link", "set", n.port(i), map[bool]string{true: "up", false: "down"}[in])
}

// on makes a command run on a host. Only its network differs.
func (n *network) on(i int, command ...string) *exec.Cmd {
	args := append([]string{"--net=/run/netns/" + n.name(i), "--"}, command...)
	return exec.Command("nsenter", args...)
}

func (n *network) ip(args ...string) {
	n.t.Helper()
	if out, err := exec.Command("ip", args...).CombinedOutput(); err != nil {
		n.t.Fatalf("ip %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

// certificates are the PEM files of an authority, a server and a client.
type certificates struct{ ca, server, serverKey, client, clientKey string }

// newCertificates makes them; the server's is for some IP addresses.
func newCertificates(t *testing.T, dir string, addresses ...string) certificates {
	t.Helper()
	file := func(name string) string { return filepath.Join(dir, name+".pem") }
	c := certificates{file("ca"), file("server"), file("server-key"), file("client"), file("client-key")}
	authority := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "authority"}, NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	var ips []net.IP
	for _, a := range addresses {
		ips = append(ips, net.ParseIP(a))
	}
	caKey := writeCertificate(t, authority, authority, nil, c.ca, "")
	for i, leaf := range []struct{ cert, key, name string }{{c.server, c.serverKey, "server"}, {c.client, c.clientKey, "client"}} {
		x := &x509.Certificate{
			SerialNumber: big.NewInt(int64(i + 2)), Subject: pkix.Name{CommonName: leaf.name}, NotAfter: time.Now().Add(time.Hour),
			KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
			IPAddresses: ips,
		}
		writeCertificate(t, x, authority, caKey, leaf.cert, leaf.key)
	}
	return c
}

// writeCertificate signs a certificate with the key of its parent, or its own if that is nil, and
// writes it and, unless the file is "", its key.
func writeCertificate(t *testing.T, x, parent *x509.Certificate, parentKey *ecdsa.PrivateKey, certFile, keyFile string) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	if parentKey == nil {
		parentKey = key
	}
	cert, err := x509.CreateCertificate(rand.Reader, x, parent, key.Public(), parentKey)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	for file, block := range map[string]*pem.Block{certFile: {Type: "CERTIFICATE", Bytes: cert}, keyFile: {Type: "PRIVATE KEY", Bytes: private}} {
		if file == "" {
			continue
		}
		if err := os.WriteFile(file, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return key
}
