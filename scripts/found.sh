#!/bin/sh
# Says what the build found and what it left out.
cuda="no nvcc: CPU only"
command -v nvcc >/dev/null 2>&1 && cuda="nvcc found; this version has no CUDA backend yet: CPU only"
echo "built ./deltop (OpenBLAS, LAPACKE, OpenMP, cairo, libpng, jansson, PCRE2, utf8proc; $cuda)"
