# Builds libllama and libggml, which is all that EdgeKV loads, and leaves out llama.cpp's
# "common" library, which llama-cpp-python turns on unconditionally. CMake includes this file at
# llama.cpp's own project() line; a plain variable hides the cache entry that was forced on.
set(LLAMA_BUILD_COMMON OFF)
