# Finds the mujoco package of the Python that builds us: its headers, library and exact version.
execute_process(
  COMMAND "${Python_EXECUTABLE}" -c
    "import importlib.util as u, importlib.metadata as m; print(u.find_spec('mujoco').submodule_search_locations[0], m.version('mujoco'), sep=';', end='')"
  OUTPUT_VARIABLE _mujoco RESULT_VARIABLE _failed ERROR_VARIABLE _error)
if(_failed)
  message(FATAL_ERROR "servorl is compiled against the mujoco package, which ${Python_EXECUTABLE} cannot find. "
                      "Install it first: pip install mujoco==4.0.0\n${_error}")
endif()
list(GET _mujoco 0 _mujoco_root)
list(GET _mujoco 1 MUJOCO_VERSION)
file(GLOB _mujoco_library "${_mujoco_root}/libmujoco.so.${MUJOCO_VERSION}" "${_mujoco_root}/libmujoco.${MUJOCO_VERSION}.dylib")
if(NOT _mujoco_library)
  message(FATAL_ERROR "no libmujoco for version ${MUJOCO_VERSION} in ${_mujoco_root}")
endif()
add_library(mujoco::mujoco SHARED IMPORTED GLOBAL)
set_target_properties(mujoco::mujoco PROPERTIES
  IMPORTED_LOCATION "${_mujoco_library}" INTERFACE_INCLUDE_DIRECTORIES "${_mujoco_root}/include")
message(STATUS "MuJoCo ${MUJOCO_VERSION}: ${_mujoco_library}")
