package bfrops

import "strconv"

// Code is a status. Success is an error too: the answer of a command that has none of its own. As the error
// of a command, a Code is the answer (pmix_common.h has the numbers).
type Code int

// The codes, named as in pmix_common.h where it has them. What no MPI library is ever told is not here.
const (
	Success             Code = 0
	ErrRequestedAbort   Code = -8 // PMIX_ERR_PROC_REQUESTED_ABORT
	ErrTimeout          Code = -24
	ErrBadParam         Code = -27
	ErrOutOfResource    Code = -29
	ErrNotFound         Code = -46
	ErrNotSupported     Code = -47
	ErrPartialSuccess   Code = -52 // PMIX_QUERY_PARTIAL_SUCCESS
	ErrDuplicateKey     Code = -53
	ErrJobFailedToStart Code = -181 // PMIX_ERR_JOB_FAILED_TO_LAUNCH

	// Quiet is no status of PMIx: Open MPI 4 takes it for its own OPAL_ERR_SILENT (opal/constants.h),
	// of which it says nothing.
	Quiet Code = -43
)

func (c Code) Error() string { return "PMIx status " + strconv.Itoa(int(c)) }
