// Package fields finds fields that a conversion loses: one that is added to a type whose values are made into others',
// and that nobody carries over.
package fields

import (
	"fmt"
	"reflect"
)

// Lost names the exported fields of T that make no difference to what convert makes of a value: each is emptied in a
// value whose fields are all set. convert must not change its argument.
func Lost[T any](convert func(*T) any) (names []string) {
	all := convert(Filled[T]())
	kind := reflect.TypeFor[T]()
	for i := range kind.NumField() {
		if !kind.Field(i).IsExported() {
			continue
		}
		v := Filled[T]()
		reflect.ValueOf(v).Elem().Field(i).SetZero()
		if reflect.DeepEqual(all, convert(v)) {
			names = append(names, kind.Field(i).Name)
		}
	}
	return names
}

// Filled is a T in which everything is set that is exported, lists with one element.
func Filled[T any]() *T {
	v := new(T)
	fill(reflect.ValueOf(v).Elem(), 0)
	return v
}

// deepest bounds types that hold themselves.
const deepest = 6

func fill(v reflect.Value, depth int) {
	if depth > deepest {
		return
	}
	switch v.Kind() {
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		v.SetInt(1)
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		v.SetUint(1)
	case reflect.Float32, reflect.Float64:
		v.SetFloat(1)
	case reflect.String:
		v.SetString("x")
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0), depth+1)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), depth+1)
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				fill(v.Field(i), depth+1)
			}
		}
	default:
		panic(fmt.Sprintf("fields: no value for a %v", v.Type()))
	}
}
