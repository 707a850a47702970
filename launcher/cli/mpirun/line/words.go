package line

import "strings"

// blanks are what isspace(3) takes for one in the locale that launchers read their files in, "C".
const blanks = " \t\n\v\f\r"

// Words are the words of a line as launchers take it apart. Arguments are bytes: strings.Fields would also split them at
// characters such as U+00A0, a blank of people's that belongs to the word for Open MPI and Hydra.
func Words(text string) []string {
	return strings.FieldsFunc(text, func(c rune) bool { return strings.ContainsRune(blanks, c) })
}

// Trim is text without the blanks around it.
func Trim(text string) string { return strings.Trim(text, blanks) }
