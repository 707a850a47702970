package pmix

import "strconv"

// status is a PMIx status code (pmix_common.h); as an error of a command it is the answer.
type status int

const (
	success          status = 0
	errAborted       status = -8 // PMIX_ERR_PROC_REQUESTED_ABORT
	errExists        status = -11
	errInvalidCred   status = -12
	errNoPermissions status = -23
	errTimeout       status = -24
	errBadParam      status = -27
	errBusy          status = -28
	errOutOfResource status = -29
	errNotFound      status = -46
	errNotSupported  status = -47
)

func (s status) Error() string { return "PMIx status " + strconv.Itoa(int(s)) }
