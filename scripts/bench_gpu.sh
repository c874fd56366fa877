#!/bin/bash
# Times the GPU kernels and writes bench/results/NAME-*.{json,md,csv,png}: to be run on the machine with
# the card, from the project's folder, after `make` and `make cuda`.
#   scripts/bench_gpu.sh NAME [PEER.json ...]     NAME such as h200; peers' files from the kit
# What it runs: the `ci` suite of all operations (the kernel goals among them), each gated against float64
# on the CPU, then the shapes of the goals once more with --explain as text, then whether a comparison can be trusted.
# Minutes: about five. $BENCH_PARTS: only some of "suite explain trust"; $BENCH_HOW: other flags than --rounds 4.
set -eu
name=${1:?a name for the files, such as h200}
shift
out=bench/results
mkdir -p "$out"
parts=" ${BENCH_PARTS:-suite explain trust} "
read -ra how <<<"${BENCH_HOW:---rounds 4}"
external=()
for f in "$@"; do external+=(--external "$f"); done
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
code=0
if [[ $parts == *" suite "* ]]; then
    echo "== suite ci on the GPU"
    ./deltop bench --suite ci --device cuda "${how[@]}" --out "$tmp" "${external[@]}" >"$tmp/table.txt" || code=$?
    cat "$tmp/table.txt"
    for e in json md csv png; do cp "$tmp/bench.$e" "$out/$name-ci.$e"; done
    {
        echo "# $name: the \`ci\` suite on a GPU"
        echo
        echo "\`scripts/bench_gpu.sh $name${*:+ $*}\` (\`deltop bench --suite ci --device cuda ${how[*]}\`), $(date +%F), commit ${COMMIT:-$(git rev-parse --short HEAD 2>/dev/null || echo unknown)}."
        echo
        nvidia-smi --query-gpu=name,driver_version,clocks.max.sm,power.limit --format=csv,noheader || true
        echo
        cat "$tmp/bench.md"
    } >"$out/$name-ci.md"
fi
if [[ $parts == *" explain "* ]]; then
    echo "== what bounds the kernel goals"
    ./deltop bench --suite kernels --rounds 2 --budget 2 --no-cold --explain >"$out/$name-explain.txt" || code=$?
    cat "$out/$name-explain.txt"
fi
if [[ $parts == *" trust "* ]]; then
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
fi
echo "written to $out: $name-*"
exit "$code"
