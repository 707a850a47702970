package member

const childEnv = "MPIUP_MEMBER_TEST_CHILD"

func child() int { return 0 }
