// Package frameworks makes the variables by which training frameworks find each other without a
// launcher of their own: which rank of how many a process is, and where rank 0 can be met. PURE.
//
//	Set (what the user asked for) ─┐
//	Rank (who this process is) ────┼─▶ Variables ─▶ NAME, value, who reads it
//	Meeting (where ranks meet) ────┘
//
//	torch  RANK WORLD_SIZE LOCAL_RANK LOCAL_WORLD_SIZE NODE_RANK MASTER_ADDR MASTER_PORT, PET_*
//	jax    OMPI_MCA_orte_hnp_uri JAX_COORDINATOR_PORT JAX_LOCAL_DEVICE_IDS
//	tf     TF_CONFIG
//	horovod  HOROVOD_*, where the installed one meets by Gloo
//
// A launcher reads the user's words with Parse, and an agent makes the variables, so both mean the same by them.
// docs/frameworks.md says of each variable who reads it, and when ranks get it.
//
// Everything here is a function of its arguments and may be called by any number of goroutines. The
// package reads no environment, opens no port and does not know what a program is.
package frameworks
