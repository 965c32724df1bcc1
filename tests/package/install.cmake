# Installs the build tree BUILD, and leaves the result in PREFIX.
file(REMOVE_RECURSE "${PREFIX}" "${PREFIX}.new")
execute_process(COMMAND "${CMAKE_COMMAND}" --install "${BUILD}" --prefix "${PREFIX}.new" COMMAND_ERROR_IS_FATAL ANY)
file(RENAME "${PREFIX}.new" "${PREFIX}")
