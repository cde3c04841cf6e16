# servorl._cuda: built where nvcc is found, with the CUDA runtime linked statically; without nvcc nothing changes,
# and one that does not work costs the module and a warning, not the install.
include(CheckLanguage)

find_program(SERVORL_NVCC nvcc HINTS "$ENV{CUDACXX}" ENV CUDA_HOME ENV CUDA_PATH PATHS /usr/local/cuda PATH_SUFFIXES bin)
if(NOT SERVORL_NVCC)
  message(STATUS "nvcc not found: servorl is built without its CUDA module")
  return()
endif()

# Machine code for the architectures below that this nvcc knows, and PTX of the newest for what comes after it.
execute_process(COMMAND "${SERVORL_NVCC}" --list-gpu-arch OUTPUT_VARIABLE _known RESULT_VARIABLE _failed ERROR_VARIABLE _error)
set(SERVORL_CUDA_ARCHITECTURES "80;86;89;90;100" CACHE STRING "CUDA architectures of servorl._cuda")
set(_architectures "")
foreach(_architecture IN LISTS SERVORL_CUDA_ARCHITECTURES)
  if(_known MATCHES "compute_${_architecture}[\r\n]")
    list(APPEND _architectures ${_architecture})
  endif()
endforeach()
if(_failed OR NOT _architectures)
  message(WARNING "${SERVORL_NVCC} knows none of the architectures ${SERVORL_CUDA_ARCHITECTURES}: "
                  "servorl is built without its CUDA module\n${_error}")
  return()
endif()
list(POP_BACK _architectures _newest)
list(TRANSFORM _architectures APPEND "-real")
set(CMAKE_CUDA_ARCHITECTURES ${_architectures} ${_newest})

set(ENV{CUDACXX} "${SERVORL_NVCC}")
check_language(CUDA)
if(NOT CMAKE_CUDA_COMPILER)
  message(WARNING "${SERVORL_NVCC} does not compile: servorl is built without its CUDA module (see CMakeFiles/CMakeError.log)")
  return()
endif()
enable_language(CUDA)
set(CMAKE_CUDA_STANDARD 17)
set(CMAKE_CUDA_STANDARD_REQUIRED ON)
set(CMAKE_CUDA_RUNTIME_LIBRARY Static)

pybind11_add_module(_cuda NO_EXTRAS csrc/cuda/module.cpp csrc/cuda/advantage.cu)
target_include_directories(_cuda PRIVATE csrc)
list(JOIN CMAKE_CUDA_ARCHITECTURES " " _names)
target_compile_definitions(_cuda PRIVATE "SERVORL_CUDA_ARCHITECTURES=\"${_names}\"")
# No fused multiply-adds, as on the host: the kernels are bound by memory, and their results equal the host's.
target_compile_options(_cuda PRIVATE "$<$<COMPILE_LANGUAGE:CUDA>:-fmad=false>")
install(TARGETS _cuda LIBRARY DESTINATION .)
