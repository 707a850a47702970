package ssh

import (
	"cmp"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// Keygen is what a command line of ssh-keygen said.
type Keygen struct {
	All     bool   // -A: the host keys that are missing
	Kind    string // -t: "rsa", "ecdsa" or "ed25519"
	Bits    int    // -b; 0: the kind's usual
	File    string // -f; with -A what goes before /etc/ssh
	Comment string // -C
	HasC    bool   // -C was given
	Quiet   bool   // -q
	Show    byte   // 'y': the public key of File; 'l': its fingerprint; 0: neither
	Forget  string // -R: a host to take out of known_hosts
}

// keygenRefused are the letters of ssh-keygen (9.x) for which scripts that set up MPI have no use, by what they do.
var keygenRefused = map[byte]string{
	'B': "shows a key as words", 'c': "changes a comment", 'D': "reads a PKCS#11 token", 'E': "chooses a fingerprint's hash", 'e': "exports a key",
	'F': "searches known_hosts", 'g': "prints DNS records", 'H': "hashes known_hosts", 'I': "signs a certificate", 'i': "imports a key",
	'K': "reads keys of a security key", 'k': "makes a list of revoked keys", 'L': "prints a certificate",
	'M': "works on moduli", 'm': "chooses another format of the file", 'n': "names a certificate's principals", 'O': "has options of other operations",
	'P': "gives an old passphrase", 'p': "changes a passphrase", 'Q': "tests for revoked keys",
	'r': "prints DNS records", 's': "signs a certificate", 'U': "asks an ssh agent", 'u': "changes a list of revoked keys",
	'V': "gives a certificate's dates", 'w': "names a security key's library", 'Y': "signs files",
	'Z': "chooses the file's cipher", 'z': "numbers a certificate",
}

// keygenValued are the letters with a value.
const keygenValued = "abCDEFfIJjMmNnOPRrstVwYZz"

// ParseKeygen reads the words after ssh-keygen's own name: -A, -y, -l and -R, and -t, -b, -N, -f, -C and -q.
func ParseKeygen(args []string) (k Keygen, err error) {
	passphrase := false
	rest, err := Letters(args, keygenValued, func(letter byte, value string) error {
		switch letter {
		case 'A':
			k.All = true
		case 'q':
			k.Quiet = true
		case 'y', 'l':
			if k.Show != 0 && k.Show != letter {
				return errors.New("-y and -l: which of them? write one")
			}
			k.Show = letter
		case 'R':
			if k.Forget = value; value == "" {
				return errors.New("-R needs a host")
			}
		case 'v', 'a', 'o': // more words; rounds of a passphrase's hash; the file's format, which is the only one
		case 't':
			k.Kind = strings.ToLower(value)
		case 'b':
			if k.Bits, err = strconv.Atoi(value); err != nil || k.Bits < 1 {
				return fmt.Errorf("-b %.20q is no number of bits", value)
			}
		case 'f':
			k.File = value
		case 'C':
			k.Comment, k.HasC = value, true
		case 'N':
			if passphrase = true; value != "" {
				return errors.New("-N: keys are made without a passphrase here, since nobody is there to type it: write -N ''")
			}
		default:
			if what, ok := keygenRefused[letter]; ok {
				return fmt.Errorf("-%c %s, which mpiup does not do: call the image's own ssh-keygen by its path", letter, what)
			}
			return fmt.Errorf("unknown option -%c", letter)
		}
		return nil
	})
	switch {
	case err != nil:
		return k, err
	case len(rest) > 0:
		return k, fmt.Errorf("%.40q is not an option of ssh-keygen", rest[0])
	case k.All, k.Forget != "", k.Show != 0 && k.File != "":
		return k, nil
	case strings.ContainsAny(k.Comment, "\r\n"):
		return k, errors.New("-C: a comment is one line")
	case k.File == "":
		return k, errors.New("which file? nothing is asked here: write -f FILE")
	case !passphrase:
		return k, errors.New("no passphrase is asked for here: write -N ''")
	}
	k.Kind = cmp.Or(k.Kind, "ed25519") // as ssh-keygen 9.5 and later
	return k, nil
}
