# cmake --install: the library, its public headers with the internal ones that those need, and the files that
# find_package(onstream) reads, under the prefix. The Python module is a component of its own: pip takes it alone, and this
# leaves it out.
include(CMakePackageConfigHelpers)
set(onstream_package ${CMAKE_INSTALL_LIBDIR}/cmake/onstream)

install(TARGETS onstream EXPORT onstream_targets ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT cpp)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/onstream DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT cpp)
foreach(header ${onstream_internal_headers})
  cmake_path(GET header PARENT_PATH folder)
  install(
    FILES ${PROJECT_SOURCE_DIR}/src/${header} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/${folder} COMPONENT cpp)
endforeach()
install(EXPORT onstream_targets NAMESPACE onstream:: DESTINATION ${onstream_package} COMPONENT cpp)

configure_package_config_file(
  ${CMAKE_CURRENT_LIST_DIR}/onstream-config.cmake.in ${PROJECT_BINARY_DIR}/onstream-config.cmake
  INSTALL_DESTINATION ${onstream_package} NO_SET_AND_CHECK_MACRO NO_CHECK_REQUIRED_COMPONENTS_MACRO)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/onstream-config-version.cmake COMPATIBILITY SameMinorVersion)
install(
  FILES ${PROJECT_BINARY_DIR}/onstream-config.cmake ${PROJECT_BINARY_DIR}/onstream-config-version.cmake
  DESTINATION ${onstream_package} COMPONENT cpp)
