package types

import (
	"errors"
	"math"
	"math/big"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
)

// Quantity is an amount of a resource in its unit: bytes for memory and disk, thousandths for
// everything else (cpu: milli-cpu; 0.5 gpu is 500). Only free amounts may be negative.
type Quantity int64

// Inf is an unbounded capacity.
const Inf Quantity = math.MaxInt64

// Whole returns n of a resource that is counted, such as gpu or an ephemeral resource.
func Whole(n int) Quantity {
	const most = math.MaxInt64 / 1000
	return Quantity(max(-most, min(n, most))) * 1000
}

// MustQuantity is ParseQuantity for an amount written in a program: it panics if it is wrong.
func MustQuantity(name, text string) Quantity {
	q, err := ParseQuantity(name, text)
	if err != nil {
		panic(err)
	}
	return q
}

// Unit is the unit of a Quantity.
type Unit int

// The units.
const (
	Milli Unit = iota // one thousandth
	Bytes             // one byte
)

// Add returns q + r. Inf stays Inf, and overflow saturates just below Inf.
func (q Quantity) Add(r Quantity) Quantity {
	if q == Inf || r == Inf {
		return Inf
	}
	if r > 0 && q > Inf-1-r {
		return Inf - 1
	}
	return q + r
}

// Minus returns the free part of capacity q with used in use. Inf stays Inf while any quantity can
// still be added to used. Beyond MaxAllocated nothing is free.
func (q Quantity) Minus(used Quantity) Quantity {
	if q == Inf && used <= MaxAllocated-MaxQuantity {
		return Inf
	}
	return min(q, MaxAllocated) - used
}

// ParseQuantity parses an amount of the named resource: "2", "0.5", "500m", "4Gi" or "inf". Memory
// and disk need a unit (Ki, Mi, Gi, Ti, k, M, G, T, or B for bytes). Invalid: the error has field,
// value and remedy.
func ParseQuantity(name, text string) (Quantity, error) {
	text = strings.TrimSpace(text)
	if strings.EqualFold(text, "inf") {
		return Inf, nil
	}
	unit := UnitOf(ResourceID(name))
	plain := text
	if unit == Bytes {
		plain = strings.TrimSuffix(text, "B")
		if strings.HasPrefix(text, "-") && endsInDigit(text) {
			return 0, negative(name, text)
		}
		if plain == text && text != "0" && endsInDigit(text) {
			text = shorten(text)
			return 0, Errorf(Invalid, "%s: %q has no unit: write %sMi for mebibytes, or %sB for bytes", name, text, text, text)
		}
	}
	if len(plain) > maxQuantityText || hugeExponent(plain) {
		return 0, Errorf(Invalid, "%s: %q has too many digits: write a number such as %s, or inf for no bound", name, shorten(text), unit.example())
	}
	if unit == Milli && strings.HasSuffix(plain, "i") {
		return 0, Errorf(Invalid, "%s: %q is a size in bytes, and this resource is not memory: write a number such as %s", name, shorten(text), unit.example())
	}
	value, err := resource.ParseQuantity(plain)
	if err != nil {
		return 0, Errorf(Invalid, "%s: %q is not a quantity: write a number such as %s", name, text, unit.example())
	}
	return fromDecimal(name, text, unit, value)
}

func negative(name, text string) error {
	return Errorf(Invalid, "%s: %q is negative: a quantity is 0 or more", name, shorten(text))
}

// fromDecimal converts exactly: it refuses values that do not fit, and never rounds.
func fromDecimal(name, text string, unit Unit, value resource.Quantity) (Quantity, error) {
	dec := value.AsDec()
	if dec.Sign() < 0 {
		return 0, negative(name, text)
	}
	rat := new(big.Rat).SetFrac(dec.UnscaledBig(), big.NewInt(1))
	scale := new(big.Rat).SetInt(new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(abs(int(dec.Scale())))), nil))
	if dec.Scale() > 0 {
		rat.Quo(rat, scale)
	} else {
		rat.Mul(rat, scale)
	}
	if unit == Milli {
		rat.Mul(rat, big.NewRat(1000, 1))
	}
	if !rat.IsInt() && unit == Bytes && strings.HasSuffix(text, "m") {
		return 0, Errorf(Invalid, "%s: %q is in thousandths of a byte: write %sMi for mebibytes", name, text, strings.TrimSuffix(text, "m"))
	}
	if !rat.IsInt() {
		return 0, Errorf(Invalid, "%s: %q is finer than %s: round it", name, text, unit.smallest())
	}
	if !rat.Num().IsInt64() || Quantity(rat.Num().Int64()) > MaxQuantity {
		return 0, Errorf(Invalid, "%s: %q is too large: the largest is %s; inf means no bound", name, text, MaxQuantity.Format(ResourceID(name)))
	}
	return Quantity(rat.Num().Int64()), nil
}

// maxQuantityText is longer than the text of any valid quantity.
const maxQuantityText = 40

// hugeExponent reports whether text has an exponent beyond any valid quantity. Computing such a
// number would take very long.
func hugeExponent(text string) bool {
	i := strings.IndexAny(text, "eE")
	if i < 0 {
		return false
	}
	n, err := strconv.Atoi(text[i+1:])
	return errors.Is(err, strconv.ErrRange) || err == nil && abs(n) > maxQuantityText
}

func abs(n int) int { return max(n, -n) }

func endsInDigit(s string) bool {
	return s != "" && s[len(s)-1] >= '0' && s[len(s)-1] <= '9' || strings.HasSuffix(s, ".")
}

func (u Unit) example() string {
	if u == Bytes {
		return "512Mi or 4Gi"
	}
	return "2, 0.5 or 500m"
}

func (u Unit) smallest() string {
	if u == Bytes {
		return "one byte"
	}
	return "one thousandth"
}

// Format formats q in the form that ParseQuantity parses for the resource.
func (q Quantity) Format(id ResourceID) string {
	switch {
	case q == Inf:
		return "inf"
	case UnitOf(id) == Milli:
		return formatMilli(q)
	case q == 0:
		return "0"
	case q == math.MinInt64: // its negation overflows
		return strconv.FormatInt(int64(q), 10) + "B"
	case q < 0:
		return "-" + (-q).Format(id)
	}
	text := resource.NewQuantity(int64(q), resource.BinarySI).String()
	if endsInDigit(text) {
		text += "B"
	}
	return text
}

// formatMilli formats thousandths as a decimal number without trailing zeros.
func formatMilli(q Quantity) string {
	sign, n := "", uint64(q)
	if q < 0 {
		sign, n = "-", -n
	}
	text := sign + strconv.FormatUint(n/1000, 10)
	if n%1000 == 0 {
		return text
	}
	return text + "." + strings.TrimRight(strconv.FormatUint(1000+n%1000, 10)[1:], "0")
}
