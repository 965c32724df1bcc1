# Configures SOURCE in the empty directory BINARY with the options after "--", builds it and runs its program `consumer`.
set(options "")
set(found_separator FALSE)
math(EXPR last "${CMAKE_ARGC} - 1")
foreach(i RANGE ${last})
  if(found_separator)
    string(REPLACE ";" "\\;" option "${CMAKE_ARGV${i}}")
    list(APPEND options "${option}")
  elseif(CMAKE_ARGV${i} STREQUAL "--")
    set(found_separator TRUE)
  endif()
endforeach()

file(REMOVE_RECURSE "${BINARY}")
execute_process(COMMAND "${CMAKE_COMMAND}" -S "${SOURCE}" -B "${BINARY}" -G "${GENERATOR}" ${options}
                COMMAND_ERROR_IS_FATAL ANY)
execute_process(COMMAND "${CMAKE_COMMAND}" --build "${BINARY}" COMMAND_ERROR_IS_FATAL ANY)
execute_process(COMMAND "${BINARY}/consumer" WORKING_DIRECTORY "${BINARY}" COMMAND_ERROR_IS_FATAL ANY)
