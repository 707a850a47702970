package launcher

import (
	"reflect"
	"testing"
	"time"
)

// What the user says of a run reaches its logic: a field that both have is handed over.
func TestConfigLosesNothing(t *testing.T) {
	handed := 0
	to := reflect.TypeOf((&Config{}).forRun)
	for i := range to.Out(0).NumField() {
		name := to.Out(0).Field(i).Name
		cfg := &Config{}
		cfg.Fill()
		cfg.Grace, cfg.TermGrace = 0, 0
		f := reflect.ValueOf(cfg).Elem().FieldByName(name)
		if !f.IsValid() || f.Type() != to.Out(0).Field(i).Type || name == "Pty" {
			continue
		}
		handed++
		if f.Kind() != reflect.Func && !reflect.ValueOf(cfg.forRun()).Field(i).IsZero() {
			t.Errorf("%s is there though nobody said it", name)
		}
		f.Set(said(f.Type()))
		if reflect.ValueOf(cfg.forRun()).Field(i).IsZero() {
			t.Errorf("%s is lost", name)
		}
	}
	if handed < 5 {
		t.Errorf("only %d fields are alike", handed)
	}
}

// said is some value that is not zero.
func said(of reflect.Type) reflect.Value {
	v := reflect.New(of).Elem()
	switch of.Kind() {
	case reflect.Bool:
		v.SetBool(true)
	case reflect.String:
		v.SetString("x")
	case reflect.Slice:
		v.Set(reflect.MakeSlice(of, 1, 1))
	case reflect.Pointer:
		v.Set(reflect.New(of.Elem()))
	case reflect.Struct:
		v.Field(0).Set(said(of.Field(0).Type))
	case reflect.Uint, reflect.Uint8, reflect.Uint16:
		v.SetUint(1)
	default:
		v.SetInt(int64(time.Second))
	}
	return v
}
