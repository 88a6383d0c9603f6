package types

import (
	"encoding/json"
	"time"
)

// Duration is a time.Duration with a text form: "1m30s".
type Duration time.Duration

// MarshalJSON encodes it as text.
func (d Duration) MarshalJSON() ([]byte, error) { return json.Marshal(time.Duration(d).String()) }

// UnmarshalJSON decodes it like time.ParseDuration.
func (d *Duration) UnmarshalJSON(text []byte) error {
	var s string
	if err := json.Unmarshal(text, &s); err != nil {
		return Errorf(Invalid, "%s is not a duration: write it as text with a unit, such as \"30s\"", text)
	}
	v, err := time.ParseDuration(s)
	if err != nil {
		return Errorf(Invalid, "%q is not a duration: write it such as \"1m30s\"", s)
	}
	*d = Duration(v)
	return nil
}

// Amount is an amount of a resource as text: "1", "500m", "4Gi", "inf". It also accepts a number.
type Amount string

// UnmarshalJSON decodes a text or a number.
func (a *Amount) UnmarshalJSON(text []byte) error {
	var s string
	if json.Unmarshal(text, &s) == nil {
		*a = Amount(s)
		return nil
	}
	var n json.Number
	if err := json.Unmarshal(text, &n); err != nil {
		return Errorf(Invalid, "%s is not an amount: write it such as \"1\", \"500m\" or \"4Gi\"", text)
	}
	*a = Amount(n)
	return nil
}
