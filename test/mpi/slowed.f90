! slowed STEPS KIND SECONDS SLOW FACTOR DIR: as slowed.c, in Fortran.
program slowed
  use mpi
  use iso_c_binding
  implicit none
  interface
    subroutine step_begin(rank, kind, seconds, dir) bind(c)
      use iso_c_binding
      integer(c_int), value :: rank
      character(kind=c_char) :: kind(*), dir(*)
      real(c_double), value :: seconds
    end subroutine
    subroutine step(more) bind(c)
      use iso_c_binding
      real(c_double), value :: more
    end subroutine
  end interface
  integer :: rank, n, err, i, steps, slow
  double precision :: x, y, seconds, factor
  character(len=1000) :: word, kind, dir
  call MPI_Init(err)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, err)
  call MPI_Comm_size(MPI_COMM_WORLD, n, err)
  call get_command_argument(1, word)
  read(word, *) steps
  call get_command_argument(2, kind)
  call get_command_argument(3, word)
  read(word, *) seconds
  call get_command_argument(4, word)
  read(word, *) slow
  call get_command_argument(5, word)
  read(word, *) factor
  call get_command_argument(6, dir)
  if (rank /= slow) factor = 1
  call step_begin(rank, trim(kind) // c_null_char, seconds, trim(dir) // c_null_char)
  call MPI_Barrier(MPI_COMM_WORLD, err)
  write(*, '(A,I0,A)') 'rank ', rank, ' is there'
  flush(6)
  x = 1
  do i = 1, steps
    call step(factor)
    call MPI_Allreduce(x, y, 1, MPI_DOUBLE_PRECISION, MPI_SUM, MPI_COMM_WORLD, err)
  end do
  call MPI_Finalize(err)
end program
