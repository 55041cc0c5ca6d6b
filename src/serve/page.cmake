# The page's files as C++: web/ and the two libraries that it uses, as Debian packs them.
find_file(MARKED_JS marked.umd.min.js PATHS /usr/share/javascript/marked NO_DEFAULT_PATH REQUIRED)
find_file(PURIFY_JS purify.min.js PATHS /usr/share/nodejs/dompurify/dist NO_DEFAULT_PATH REQUIRED)
find_package(Python3 REQUIRED COMPONENTS Interpreter)
file(GLOB page_files CONFIGURE_DEPENDS web/*.html web/*.js web/*.css)
list(APPEND page_files ${MARKED_JS} ${PURIFY_JS})
set(page_inc ${CMAKE_CURRENT_BINARY_DIR}/page/serve/page_files.inc)
add_custom_command(
  OUTPUT ${page_inc}
  COMMAND ${CMAKE_COMMAND} -E make_directory ${CMAKE_CURRENT_BINARY_DIR}/page/serve
  COMMAND Python3::Interpreter ${CMAKE_CURRENT_SOURCE_DIR}/tools/embed_page.py ${page_inc} ${page_files}
  DEPENDS ${page_files} tools/embed_page.py
  VERBATIM)
target_sources(serve PRIVATE ${page_inc})
target_include_directories(serve PRIVATE ${CMAKE_CURRENT_BINARY_DIR}/page)
