package why

import (
	"fmt"
	"strings"
	"time"

	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/controlplane/match"
	"github.com/escher-sched/escher/types"
)

// NameOf is the name of a resource as seen from a namespace.
func NameOf(ns string, rid types.ResourceID) string {
	if rid.IsPlacement() {
		return strings.Replace(string(rid), "/", " ", 1)
	}
	if number, ok := rid.FixedPort(); ok {
		return fmt.Sprintf("port %d", number)
	}
	if rid == types.Port {
		return "ports"
	}
	return rid.In(ns)
}

// AmountOf is an amount with the resource name.
func AmountOf(ns string, rid types.ResourceID, q types.Quantity) string {
	return amountText(ns, rid, q.Format(rid))
}

// amountText is AmountOf for an amount in words.
func amountText(ns string, rid types.ResourceID, amount string) string {
	_, fixed := rid.FixedPort()
	switch {
	case fixed || rid.IsPlacement():
		return NameOf(ns, rid)
	case rid == types.Port && amount == match.Whole.Format(rid):
		return "1 port"
	}
	return amount + " " + NameOf(ns, rid)
}

// Ref is the name of a task or reservation as seen from a namespace.
func Ref(ns string, id cluster.ID) string {
	if id.Namespace == ns || id.Namespace == "" { // without one, it is in words
		return id.ID
	}
	return id.String()
}

// NameIn returns the name of a holder as seen from a namespace.
func (h Holder) NameIn(ns string) string {
	name := Ref(ns, cluster.ID{Namespace: h.Namespace, ID: h.ID})
	if h.Kind == KindReservation {
		return "reservation " + name
	}
	return name
}

// InWords is a readable duration.
func InWords(d time.Duration) string {
	if d < time.Second {
		return "1s"
	}
	text := d.Round(time.Second).String()
	if d >= time.Hour {
		text = d.Round(time.Minute).String()
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}
