#!/bin/sh
# Encoding speed on one thread, ours beside the Python library's, in one run, per tokenizer and
# document. Needs ../shared (or DELTOP_SHARED) and, for the library's lines, Python with `tokenizers`.
#   bench/tokenizer_speed.sh [RUNS]
set -eu
cd "$(dirname "$0")/.."
runs=${1:-3}
shared=${DELTOP_SHARED:-../shared}
make -s build/tests/test_tokenizer_speed
export OMP_NUM_THREADS=1
for t in "$shared"/tokenizers/*/tokenizer.json "$shared"/checkpoints/deltanet/tokenizer.json; do
    build/tests/test_tokenizer_speed "$runs" "$t" "$shared"/documents/code_ext4.txt "$shared"/documents/text_kjv.txt
    if python3 -c 'import tokenizers' 2>/dev/null; then
        python3 scripts/tokenizer_library_speed.py "$runs" "$t" "$shared"/documents/code_ext4.txt \
            "$shared"/documents/text_kjv.txt
    else
        echo "no Python library here: only our own figures"
    fi
done
