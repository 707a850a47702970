package job

// Link is how an exception came of the one that a program wrote before it.
//
//	ValueError ─direct cause─▶ RuntimeError          FromCause: the first one is why there is a second one
//	KeyError ─during handling─▶ FileNotFoundError    WhileHandling: it may be why, or a look-up that may fail
//	ChildFailed ◀─quotes─ ValueError                 Quoted: the second one is why, in a worker or another rank
//	ExceptionGroup ◀─has─ ValueError, OSError        Member: likewise
type Link uint8

// The links.
const (
	Unlinked      Link = iota // it came of none
	FromCause                 // "The above exception was the direct cause of the following exception:"
	WhileHandling             // "During handling of the above exception, another exception occurred:"
	Quoted                    // the message of the one before quotes it with its traceback
	Member                    // the one before is a group, which has it
)
