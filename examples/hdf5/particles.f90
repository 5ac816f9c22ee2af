! An ordinary Fortran program that uses HDF5. It knows nothing of Arrow or Plasmon.
!
!     h5fc particles.f90 -o particles && ./particles particles.h5
!
! With HDF5_PLUGIN_PATH and HDF5_VOL_CONNECTOR set (docs/guides/hdf5.md) its datasets become Arrow
! files. HDF5 1.14.3 or later is needed for that.
program particles
  use hdf5
  implicit none

  integer, parameter :: columns = 4, rows = 250
  character(len=1024) :: path
  integer(hid_t) :: file, space, set
  integer(hsize_t) :: shape(2) = [columns, rows]
  real(kind=8) :: field(columns, rows), again(columns, rows)
  integer :: error, column, row

  call get_command_argument(1, path)
  if (path == '') path = 'particles.h5'
  do row = 1, rows
    do column = 1, columns
      field(column, row) = column + 10d0 * row
    end do
  end do

  call h5open_f(error)
  call h5fcreate_f(trim(path), H5F_ACC_TRUNC_F, file, error)
  call must(error, 'h5fcreate')
  call h5screate_simple_f(2, shape, space, error)
  call h5dcreate_f(file, 'field', H5T_NATIVE_DOUBLE, space, set, error)
  call must(error, 'h5dcreate')
  call h5dwrite_f(set, H5T_NATIVE_DOUBLE, field, shape, error)
  call must(error, 'h5dwrite')
  call h5dclose_f(set, error)
  call h5sclose_f(space, error)
  call h5fclose_f(file, error)
  call must(error, 'h5fclose')

  call h5fopen_f(trim(path), H5F_ACC_RDONLY_F, file, error)
  call must(error, 'h5fopen')
  call h5dopen_f(file, 'field', set, error)
  call h5dread_f(set, H5T_NATIVE_DOUBLE, again, shape, error)
  call must(error, 'h5dread')
  call h5dclose_f(set, error)
  call h5fclose_f(file, error)
  call h5close_f(error)
  if (any(again /= field)) error stop 'particles: other values were read'
  print '(a, a, f0.1)', trim(path), ': the sum of the field is ', sum(again)

contains

  subroutine must(error, what)
    integer, intent(in) :: error
    character(len=*), intent(in) :: what
    if (error < 0) then
      print '(a)', 'particles: '//what//' failed'
      error stop
    end if
  end subroutine must
end program particles
