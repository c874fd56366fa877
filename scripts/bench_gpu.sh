#!/bin/bash
# Times the GPU kernels and writes bench/results/NAME-*.{json,md,csv,png}: to be run on the machine with
# the card, from the project's folder, after `make` and `make cuda`.
#   scripts/bench_gpu.sh NAME [PEER.json ...]     NAME such as h200; peers' files from the kit
# What it runs: the `ci` suite of all operations (the kernel goals among them), each gated against float64
# on the CPU, then the shapes of the goals once more with --explain as text. Minutes: about five.
set -eu
name=${1:?a name for the files, such as h200}
shift
out=bench/results
mkdir -p "$out"
external=()
for f in "$@"; do external+=(--external "$f"); done
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
code=0
echo "== suite ci on the GPU"
./deltop bench --suite ci --device cuda --rounds 4 --out "$tmp" "${external[@]}" >"$tmp/table.txt" || code=$?
cat "$tmp/table.txt"
for e in json md csv png; do cp "$tmp/bench.$e" "$out/$name-ci.$e"; done
echo "== what bounds the kernel goals"
./deltop bench --suite kernels --rounds 2 --budget 2 --no-cold --explain >"$out/$name-explain.txt" || code=$?
cat "$out/$name-explain.txt"
{
    echo "# $name: the \`ci\` suite on a GPU"
    echo
    echo "\`scripts/bench_gpu.sh $name $*\`, $(date +%F), commit $(git rev-parse --short HEAD 2>/dev/null || echo unknown)."
    echo
    nvidia-smi --query-gpu=name,driver_version,clocks.max.sm,power.limit --format=csv,noheader || true
    echo
    cat "$tmp/bench.md"
} >"$out/$name-ci.md"
# Can a comparison be trusted here? The same twice, and one operation slowed by 15 %.
echo "== A/A, and gdn slowed by 15 %"
small=(--suite kernels --case gdn.B8 --case deltanet --case kda.B1.T8192 --rounds 8 --budget 2 --no-cold)
./deltop bench "${small[@]}" --out "$tmp/a" >/dev/null || code=$?
./deltop bench "${small[@]}" --out "$tmp/b" >/dev/null || code=$?
./deltop bench "${small[@]}" --slow gdn=15 --out "$tmp/c" >/dev/null || code=$?
{
    ./deltop compare "$tmp/a" "$tmp/b" --all || true
    ./deltop compare "$tmp/a" "$tmp/c" --all || true
} 2>/dev/null | tee "$out/$name-trust.txt"
echo "written to $out: $name-ci.json, .md, .csv, .png, $name-explain.txt, $name-trust.txt"
exit "$code"
