# The files of one instruction set are built for it; kernels/select.cc alone decides whether they
# run. Without exceptions, because the tables for them would be shared symbols.
set_source_files_properties(src/kernels/cpu/avx2.cc PROPERTIES
  COMPILE_OPTIONS "-fno-exceptions;-mavx2;-mfma;-mf16c;-mbmi2")
# GCC 12 takes its own header's _mm512_undefined_*() for our mistake (GCC bug 105593).
set_source_files_properties(src/kernels/cpu/avx512.cc PROPERTIES
  COMPILE_OPTIONS "-fno-exceptions;-mavx2;-mfma;-mf16c;-mbmi2;-mavx512f;-mavx512bw;-mavx512dq;-mavx512vl;\
-Wno-maybe-uninitialized;-Wno-uninitialized")

if(MOORING_TESTS)
  add_test(NAME kernels/isa_symbols
           COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/tools/check_isa_symbols.sh $<TARGET_OBJECTS:kernels>
           COMMAND_EXPAND_LISTS)
endif()

find_package(benchmark QUIET)
if(benchmark_FOUND)
  add_executable(kernels_bench EXCLUDE_FROM_ALL bench/kernels_bench.cc)
  target_link_libraries(kernels_bench PRIVATE kernels benchmark::benchmark)
endif()
