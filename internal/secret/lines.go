package secret

import (
	"reflect"
	"strings"
)

// maxKeyLines is how many lines a private key has at most: what begins like one and does not end hides no more.
const maxKeyLines = 200

// LineMasker masks a process's lines as they come. The zero value is ready.
type LineMasker struct{ key int }

// Line is the next line without its secrets.
func (m *LineMasker) Line(l string) string {
	private := strings.Contains(l, "PRIVATE KEY")
	switch {
	case private && strings.Contains(l, "-----BEGIN ") && !strings.Contains(l, "-----END "):
		m.key = maxKeyLines
	case m.key > 0:
		if m.key--; private && strings.Contains(l, "-----END ") {
			m.key = 0
		}
		return Mask
	}
	return MaskText(l)
}

// MaskLines are lines in a row of a rank without the secrets that a report would Mask in them.
func MaskLines(list []string) []string {
	if list == nil {
		return nil
	}
	out := make([]string, len(list))
	var m LineMasker
	for i, l := range list {
		inside, ends := m.key > 0, strings.Contains(l, "PRIVATE KEY") && strings.Contains(l, "-----END ")
		out[i] = m.Line(l)
		if ends && !inside && !strings.Contains(l, "-----BEGIN ") { // it began before the first line
			for j := range i + 1 {
				out[j] = Mask
			}
		}
	}
	return out
}

// MaskFields is a copy of v, in which each text is without secrets.
func MaskFields[T any](v *T) *T {
	if v == nil {
		return nil
	}
	out := *v
	maskEach(reflect.ValueOf(&out).Elem())
	return &out
}

func maskEach(v reflect.Value) {
	switch v.Kind() {
	case reflect.String:
		v.SetString(MaskText(v.String()))
	case reflect.Pointer:
		if !v.IsNil() {
			is := reflect.New(v.Type().Elem())
			is.Elem().Set(v.Elem())
			maskEach(is.Elem())
			v.Set(is)
		}
	case reflect.Slice:
		if lines, ok := v.Interface().([]string); ok {
			v.Set(reflect.ValueOf(MaskLines(lines)))
		} else if v.Len() > 0 && v.Type().Elem().Kind() != reflect.Uint8 {
			list := reflect.MakeSlice(v.Type(), v.Len(), v.Len())
			reflect.Copy(list, v)
			for i := range list.Len() {
				maskEach(list.Index(i))
			}
			v.Set(list)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Field(i).CanSet() {
				maskEach(v.Field(i))
			}
		}
	}
}
