#!/bin/bash
# deltop's kernels and the peers', FLA and FlashInfer, in turns on one GPU: writes bench/results/NAME-peers.{md,json}.
# To be run from the project's folder after `make` and `make cuda`, where python3 has PyTorch, Triton and the peers:
#   pip install torch flash-linear-attention==0.6.0 flashinfer-python==0.7.4
#   scripts/peers_gpu.sh NAME [OPTIONS of scripts/peers_gpu.py]        NAME such as h200
# FlashQLA (flash-qla==0.1.3) wants another apache-tvm-ffi than FlashInfer: an environment and a run of its own, with
# `--peers flashqla`.
# The first run compiles and tunes FLA's kernels, which takes ten minutes and more on one core; Triton keeps them for
# later ones, and `--jobs N` has N processes compile them, and FlashQLA's, before anything is measured.
# `--only ID ...` takes some shapes, `--tuning-calls 6` shortens tuning, `--time-limit SECONDS` ends in time: shapes come
# in order of importance, and what was measured until then is in the table.
set -eu
name=${1:?a name for the files, such as h200}
shift
out=bench/results
mkdir -p "$out"
tmp=$(mktemp -d)
trap 'echo "what was measured is in $tmp" >&2; exit 1' INT TERM
export PYTHONDONTWRITEBYTECODE=1
code=0
python3 scripts/peers_gpu.py "$tmp/run" "$@" || code=$?
[ -d "$tmp/run" ] || { rmdir "$tmp"; exit "$code"; }
python3 scripts/peers_table.py "$tmp"/run* --markdown "$out/$name-peers.md" --json "$out/$name-peers.json" \
    --title "$name: deltop beside FLA and FlashInfer, in turns" --command "scripts/peers_gpu.sh $name${*:+ $*}" ||
    { echo "no table; what was measured is in $tmp" >&2; exit 1; }
rm -rf "$tmp"
cat "$out/$name-peers.md"
echo "written: $out/$name-peers.md, $out/$name-peers.json"
exit "$code"
