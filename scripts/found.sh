#!/bin/sh
# Says what the build found and what it left out.
cuda="no nvcc: CPU only"
command -v nvcc >/dev/null 2>&1 && cuda="nvcc found: make cuda builds the GPU part"
[ -e deltop-cuda.so ] && cuda="deltop-cuda.so beside it"
spm="no SentencePiece: tokenizer.model files are not read"
[ -e "${BUILD:-build}/core/sentencepiece.o" ] && spm="SentencePiece"
echo "built ./deltop (OpenBLAS, LAPACKE, OpenMP, cairo, libpng, jansson, PCRE2, utf8proc, ncursesw; $spm; $cuda)"
