package hang

import "fmt"

// A Doubt is what ranks say of themselves that names nobody: too little bears out whom they wait for, or others say the contrary.
type Doubt string

// doubt says who waits for somebody that may not be named.
func (a Absence) doubt(same bool) Doubt {
	who := ranksOfTorch(same)(a.Waiting)
	waits, record := "waits", "its record"
	if a.Waiting.Len() != 1 {
		waits, record = "wait", "their records"
	}
	at := ""
	if a.Op.Where != "" {
		at = " at " + a.Op.Where
	}
	return Doubt(fmt.Sprintf("%s %s in %s number %d of group %s%s, by %s alone: that is too little to say who is not there",
		who, waits, a.Op.Name, a.Op.Seq, a.Group, at, record))
}

// doubt says what contradicts what, and accuses neither.
func (d Dispute) doubt(same bool) Doubt {
	name := ranksOfTorch(same)
	record := "'s record"
	if d.Ahead.Len() > 1 {
		record += "s"
	}
	return Doubt(fmt.Sprintf("%s%s and %s's contradict each other: by the one number %d of group %s has begun, %s, by the other number %d has not ended, %s",
		name(d.Ahead), record, name(d.Behind), d.AheadOp.Seq, d.Group, d.AheadOp.Name, d.BehindOp.Seq, d.BehindOp.Name))
}
