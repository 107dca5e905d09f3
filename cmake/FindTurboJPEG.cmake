# Debian's libturbojpeg0-dev's package files name tools that come with other packages. Defines TurboJPEG::turbojpeg.
find_path(TurboJPEG_INCLUDE_DIR turbojpeg.h)
find_library(TurboJPEG_LIBRARY turbojpeg)
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(TurboJPEG REQUIRED_VARS TurboJPEG_LIBRARY TurboJPEG_INCLUDE_DIR)
if(TurboJPEG_FOUND AND NOT TARGET TurboJPEG::turbojpeg)
  add_library(TurboJPEG::turbojpeg UNKNOWN IMPORTED)
  set_target_properties(TurboJPEG::turbojpeg PROPERTIES IMPORTED_LOCATION ${TurboJPEG_LIBRARY}
                        INTERFACE_INCLUDE_DIRECTORIES ${TurboJPEG_INCLUDE_DIR})
endif()
