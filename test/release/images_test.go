package main

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

var locked = regexp.MustCompile(`^[0-9a-f]{64}  pool/(?:updates/)?main/[a-z0-9]+/[^/ ]+/([a-z0-9][a-z0-9+.-]+)_[^_/ ]+_(amd64|arm64|all)\.deb$`)

// The lock of the images' Debian packages names each once for each architecture, with the MPI libraries and what both need.
func TestDebianLock(t *testing.T) {
	text, err := os.ReadFile("debian.lock")
	if err != nil {
		t.Fatal(err)
	}
	comment, list, _ := strings.Cut(string(text), "\n")
	if !regexp.MustCompile(`^# 2\d{7}T\d{6}Z, bookworm, `).MatchString(comment) {
		t.Errorf("the first line has no time that snapshot.debian.org takes: %q", comment)
	}
	there := map[string]bool{}
	for line := range strings.Lines(list) {
		m := locked.FindStringSubmatch(strings.TrimSuffix(line, "\n"))
		if m == nil {
			t.Errorf("a line that is no package of Debian's: %q", line)
			continue
		}
		name := m[1] + ":" + m[2]
		if there[name] {
			t.Errorf("%s is there twice", name)
		}
		there[name] = true
	}
	for _, want := range []string{"apt", "libc6", "dpkg", "openmpi-bin", "libopenmpi3", "mpich", "libmpich12"} {
		for _, arch := range []string{"amd64", "arm64"} {
			if !there[want+":"+arch] {
				t.Errorf("%s for %s is not in the lock", want, arch)
			}
		}
	}
	if !there["ca-certificates:all"] {
		t.Error("ca-certificates is not in the lock")
	}
}

// A release's images are made beside the Containerfile and not by it, so what makes the user must be the same in both, and the packages.
func TestImagesAsTheContainerfileHasThem(t *testing.T) {
	read := func(path string) string {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	containerfile, debian, image := read("../../Containerfile"), read("debian.sh"), read("image.sh")
	const user = "useradd --create-home --uid 1000 --gid 0 mpiuser && echo Port 2222 >/home/mpiuser/.sshd_config && chmod -R g=u /home/mpiuser"
	if n := strings.Count(containerfile, "\nRUN "+user+"\n"); n != 4 {
		t.Errorf("%d stages of the Containerfile make the user by %q, not 4", n, user)
	}
	if !strings.Contains(debian, user) {
		t.Errorf("debian.sh does not make the user by %q", user)
	}
	for _, of := range []string{"openmpi-bin", "mpich"} {
		if !strings.Contains(containerfile, "--no-install-recommends "+of+" &&") || !strings.Contains(debian, "ca-certificates,"+of) {
			t.Errorf("%s is not what both install", of)
		}
	}
	for stage, as := range map[string]string{"USER 1000:0": "--user 1000:0", "USER 65532:0": "--user 65532:0", `ENTRYPOINT ["/mpiup"]`: "--entrypoint /mpiup"} {
		if !strings.Contains(containerfile, stage) || !strings.Contains(image, as) {
			t.Errorf("%q of the Containerfile is not %q of image.sh", stage, as)
		}
	}
	for _, link := range []string{"/usr/sbin/sshd", "/usr/bin/ssh"} {
		if !strings.Contains(containerfile, "ln -sf ../local/bin/mpiup "+link) || !strings.Contains(image, "ln -s ../local/bin/mpiup \"$root"+link+"\"") {
			t.Errorf("%s is not mpiup in both", link)
		}
	}
}
