! waits STEPS SLOW: collectives by Fortran's names with MPI_IN_PLACE, by mpi or mpi_f08, then STEPS steps of 50 ms in which rank SLOW needs 100.
program waits
#ifdef F08
  use mpi_f08
#else
  use mpi
#endif
  implicit none
  integer :: rank, n, err, i, steps, slow
  integer(8) :: from, to, rate
  double precision :: x, y(4), total, wait
  character(len=20) :: word
#ifdef F08
  type(MPI_Request) :: request
#else
  integer :: request
#endif
  call MPI_Init(err)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, err)
  call MPI_Comm_size(MPI_COMM_WORLD, n, err)
  call get_command_argument(1, word)
  read(word, *) steps
  call get_command_argument(2, word)
  read(word, *) slow
  x = rank + 1
  y = x
  total = 0
  call MPI_Allreduce(MPI_IN_PLACE, y, 4, MPI_DOUBLE_PRECISION, MPI_SUM, MPI_COMM_WORLD, err)
  total = total + sum(y)
  call MPI_Iallreduce(x, y, 1, MPI_DOUBLE_PRECISION, MPI_MAX, MPI_COMM_WORLD, request, err)
  call MPI_Wait(request, MPI_STATUS_IGNORE, err)
  total = total + y(1)
  call MPI_Bcast(total, 1, MPI_DOUBLE_PRECISION, 0, MPI_COMM_WORLD, err)
  call system_clock(count_rate=rate)
  do i = 1, steps
    wait = 0.05
    if (rank == slow) wait = 0.1
    call system_clock(from)
    to = from
    do while (dble(to - from) / rate < wait)
      call nap()
      call system_clock(to)
    end do
    call MPI_Barrier(MPI_COMM_WORLD, err)
  end do
  write(*, '(A,I0,A,I0,A,Z16.16)') 'rank ', rank, ' of ', n, ': ', total
  call MPI_Finalize(err)
contains
  subroutine nap()
    interface
      integer(c_int) function usleep(us) bind(c, name='usleep')
        use iso_c_binding, only: c_int
        integer(c_int), value :: us
      end function
    end interface
    integer :: ignored
    ignored = usleep(5000)
  end subroutine
end program
