package types

import (
	"reflect"
	"strconv"
	"testing"
)

// messages returns an empty message of every stored kind, by its name in the schema.
func messages() map[string]Message {
	return map[string]Message{
		"Node": &Node{}, "Alive": &Alive{}, "Devices": &Devices{}, "Cordon": &Cordon{},
		"Namespace": &Namespace{}, "Resource": &Resource{}, "Session": &Session{}, "Spec": &Spec{},
		"Task": &Task{}, "Job": &Job{}, "Reservation": &Reservation{}, "Grant": &Grant{},
		"Allocated": &Allocated{}, "Binding": &Binding{}, "Report": &Report{}, "Provided": &Provided{},
		"Status": &Status{}, "Leader": &Leader{}, "Cluster": &Cluster{}, "Epoch": &Epoch{}, "Progress": &Progress{}, "Admission": &Admission{},
		"Policies": &Policies{}, "Token": &Token{}, "History": &History{}, "Right": &Right{}, "Credential": &Credential{}, "Secret": &Secret{},
	}
}

// fill sets every exported field below v to a distinct value, with two elements in each list.
func fill(v reflect.Value, next *int64) {
	*next++
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), next)
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() && v.Type().Field(i).Type != reflect.TypeFor[Extra]() {
				fill(v.Field(i), next)
			}
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		fill(v.Index(0), next)
		fill(v.Index(1), next)
	case reflect.String:
		v.SetString("text" + strconv.FormatInt(*next, 10))
	case reflect.Bool:
		v.SetBool(true)
	default:
		// Every third is negative, like some quantities and exit codes.
		n := *next
		if n%3 == 0 {
			n = -n
		}
		v.SetInt(n)
	}
}

// full returns a message of every kind with every field set.
func full() map[string]Message {
	all := messages()
	var next int64
	for _, m := range all {
		fill(reflect.ValueOf(m).Elem(), &next)
	}
	return all
}

// blank returns an empty message of the same kind.
func blank(m Message) Message {
	return reflect.New(reflect.TypeOf(m).Elem()).Interface().(Message)
}

func TestFillLeavesNoFieldEmpty(t *testing.T) {
	var check func(path string, v reflect.Value)
	check = func(path string, v reflect.Value) {
		switch {
		case v.Type() == reflect.TypeFor[Extra]():
		case v.Kind() == reflect.Pointer:
			check(path, v.Elem())
		case v.Kind() == reflect.Struct:
			for i := range v.NumField() {
				check(path+"."+v.Type().Field(i).Name, v.Field(i))
			}
		case v.Kind() == reflect.Slice:
			check(path+"[1]", v.Index(1))
		case v.IsZero():
			t.Errorf("%s is empty", path)
		}
	}
	for name, m := range full() {
		check(name, reflect.ValueOf(m))
	}
}
