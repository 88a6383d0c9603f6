package types

import (
	"math"
	"reflect"
	"strings"
	"testing"
)

func TestMinusAtTheBound(t *testing.T) {
	for _, c := range []struct{ got, want Quantity }{
		{Inf.Minus(MaxAllocated - MaxQuantity), Inf},
		{Inf.Minus(MaxAllocated - MaxQuantity + 1), MaxQuantity - 1},
		{Inf.Minus(MaxAllocated), 0},
		{Inf.Minus(MaxAllocated + 1), -1},
		{(Inf - 1).Minus(MaxAllocated), 0},
		{MaxQuantity.Minus(MaxQuantity + 1), -1},
	} {
		if c.got != c.want {
			t.Errorf("got %d, want %d", c.got, c.want)
		}
	}
}

// sample returns a message with one element in each list and pointer, and all other fields empty.
func sample(m Message) reflect.Value {
	var fill func(v reflect.Value)
	fill = func(v reflect.Value) {
		switch {
		case v.Type() == reflect.TypeFor[Extra]():
		case v.Kind() == reflect.Pointer:
			v.Set(reflect.New(v.Type().Elem()))
			fill(v.Elem())
		case v.Kind() == reflect.Struct:
			for i := range v.NumField() {
				fill(v.Field(i))
			}
		case v.Kind() == reflect.Slice:
			v.Set(reflect.MakeSlice(v.Type(), 1, 1))
			fill(v.Index(0))
		}
	}
	v := reflect.ValueOf(m).Elem()
	fill(v)
	return v
}

// eachField calls f with every field below v and its path.
func eachField(path string, v reflect.Value, f func(path string, v reflect.Value)) {
	switch {
	case v.Type() == reflect.TypeFor[Extra]():
	case v.Kind() == reflect.Pointer:
		eachField(path, v.Elem(), f)
	case v.Kind() == reflect.Struct:
		for i := range v.NumField() {
			eachField(path+"."+v.Type().Field(i).Name, v.Field(i), f)
		}
	case v.Kind() == reflect.Slice:
		f(path, v)
		eachField(path+"[0]", v.Index(0), f)
	default:
		f(path, v)
	}
}

// complaints returns the text of the error of Validate.
func complaints(m Message) string {
	if err := m.Validate(); err != nil {
		return err.Error()
	}
	return ""
}

// TestEverythingIsBounded sets one field after the other of every stored message to a huge value: a
// text of 2 MiB, a list of 2^20 elements, a number far below 0 and one far above every limit.
// Validate must refuse it; only reasons are shortened on writing.
func TestEverythingIsBounded(t *testing.T) {
	// A process chooses its exit code, and -1 is an unknown NUMA node.
	free := map[string]bool{"Report.ExitCode": true, "Status.ExitCode": true, "Devices.Devices[0].NUMA": true}
	for name, m := range messages() {
		v := sample(m)
		before := complaints(m)
		eachField(name, v, func(path string, field reflect.Value) {
			was := reflect.New(field.Type()).Elem()
			was.Set(field)
			defer func() { field.Set(was) }()
			switch field.Kind() {
			case reflect.String:
				field.SetString(strings.Repeat("x", 2<<20))
				if complaints(m) == before && len(Encode(0, m)) > 2*MaxReason {
					t.Errorf("%s: a text of 2 MiB is not refused", path)
				}
			case reflect.Slice:
				field.Set(reflect.MakeSlice(field.Type(), 1<<20, 1<<20))
				if complaints(m) == before {
					t.Errorf("%s: a list of 2^20 is not refused", path)
				}
			case reflect.Int, reflect.Int64:
				for _, n := range []int64{math.MinInt64, math.MaxInt64 - 1} {
					field.SetInt(n)
					if complaints(m) == before && !free[path] && (n < 0 || !isRevision(path)) {
						t.Errorf("%s: %d is not refused", path, n)
					}
				}
			}
		})
	}
}

// isRevision reports whether a field is a revision of etcd.
func isRevision(path string) bool {
	for _, end := range []string{"Session", ".Binding", ".Reservation", "Grant.Task", "History.Through"} {
		if strings.HasSuffix(path, end) {
			return true
		}
	}
	return false
}
