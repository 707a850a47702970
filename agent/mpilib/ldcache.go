package mpilib

import (
	"bytes"
	"encoding/binary"
)

// maxLdCache bounds /etc/ld.so.cache, in bytes; large hosts have some 200 KiB.
const maxLdCache = 4 << 20

// ldCache is /etc/ld.so.cache in the format since glibc 2.2 (sysdeps/generic/dl-cache.h):
//
//	"glibc-ld.so.cache1.1"  libraries uint32  ...  48 bytes, behind an older cache perhaps
//	flags int32, name uint32, path uint32, osversion uint32, hwcap uint64   for each library
//	strings, at offsets from the first byte
type ldCache []byte

const (
	ldCacheMagic  = "glibc-ld.so.cache1.1"
	ldCacheHeader = 48
	ldCacheEntry  = 24
)

func parseLdCache(b []byte) ldCache {
	i := bytes.Index(b, []byte(ldCacheMagic))
	if i < 0 || len(b)-i < ldCacheHeader {
		return nil
	}
	return ldCache(b[i:])
}

// find returns the paths of a library, the preferred one first. Some may be for other machines.
func (c ldCache) find(name string) (paths []string) {
	const most = 16
	if c == nil {
		return nil
	}
	n := min(int(binary.LittleEndian.Uint32(c[len(ldCacheMagic):])), (len(c)-ldCacheHeader)/ldCacheEntry)
	for i := range n {
		e := c[ldCacheHeader+i*ldCacheEntry:]
		if c.is(binary.LittleEndian.Uint32(e[4:]), name) && len(paths) < most {
			paths = append(paths, c.text(binary.LittleEndian.Uint32(e[8:])))
		}
	}
	return paths
}

// is says that the text at an offset is name.
func (c ldCache) is(at uint32, name string) bool {
	end := int64(at) + int64(len(name))
	return end < int64(len(c)) && c[end] == 0 && string(c[at:end]) == name
}

func (c ldCache) text(at uint32) string {
	if int64(at) >= int64(len(c)) {
		return ""
	}
	b := c[at:]
	b = b[:min(len(b), MaxName)]
	if i := bytes.IndexByte(b, 0); i >= 0 {
		b = b[:i]
	}
	return string(b)
}
