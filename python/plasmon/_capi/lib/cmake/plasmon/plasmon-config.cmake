# find_package(plasmon) and target_link_libraries(program PRIVATE plasmon::plasmon).
#
# The package may be installed anywhere: everything is found from where this file lies.
if(NOT TARGET plasmon::plasmon)
  get_filename_component(_plasmon_prefix "${CMAKE_CURRENT_LIST_DIR}/../../.." ABSOLUTE)
  if(NOT EXISTS "${_plasmon_prefix}/lib/libplasmon.so")
    set(plasmon_FOUND FALSE)
    set(plasmon_NOT_FOUND_MESSAGE "there is no ${_plasmon_prefix}/lib/libplasmon.so")
    return()
  endif()
  add_library(plasmon::plasmon SHARED IMPORTED)
  set_target_properties(plasmon::plasmon PROPERTIES
    IMPORTED_LOCATION "${_plasmon_prefix}/lib/libplasmon.so"
    IMPORTED_SONAME "libplasmon.so"
    INTERFACE_INCLUDE_DIRECTORIES "${_plasmon_prefix}/include")
  unset(_plasmon_prefix)
endif()
