#!/bin/bash
# Prints docs/performance.md: times and memory on this machine, with what others take in the same run.
#   scripts/performance.sh SHARED > docs/performance.md    (needs python3 with numpy and tokenizers for
#   the comparisons; without them those lines are left out)
set -eu
shared=${1:?folder with checkpoints, documents, peers}
cpu=$(awk -F': ' '/model name/ { print $2; exit }' /proc/cpuinfo)
model=$shared/checkpoints/deltanet doc=$shared/documents/code_ext4.txt
timed() { /usr/bin/env time -f '%e %M' "$@" 2>&1 >/dev/null | tail -1; } # seconds, kilobytes

cat <<EOF
# Performance

Measured by \`scripts/performance.sh\` on $(date +%F): $cpu, $(nproc) cores, load $(cut -d' ' -f1 /proc/loadavg) at the start,
commit $(git rev-parse --short HEAD). The machine is shared and its times wander; ratios were taken in one run.

## Losses of a document

\`deltop loss deltanet code_ext4.txt --length N --rows 1\` (6 M parameters, 6 layers, 4 heads of 64 x 64, float32):

| tokens | seconds | tokens/s | peak memory, MB |
|---|---|---|---|
EOF
for n in 32768 131072; do
    read -r s kb <<<"$(timed ./deltop loss "$model" "$doc" --length $n --rows 1 --quiet --device cpu)"
    awk -v n=$n -v s="$s" -v k="$kb" 'BEGIN { printf "| %d | %.1f | %.0f | %.0f |\n", n, s, n / s, k / 1024 }'
done
cat <<EOF

## Effective rank of every state

\`deltop erank deltanet code_ext4.txt --length 8192\` (24 heads x 8192 tokens, forward pass included):

EOF
read -r s kb <<<"$(timed ./deltop erank "$model" "$doc" --length 8192 --quiet --device cpu)"
awk -v s="$s" 'BEGIN { printf "%.1f s, %.0f states of 64 x 64 a second.\n", s, 24 * 8192 / s }'
cat <<EOF

\`scripts/erank_rate.sh\`: singular values alone, beside the published route (one-thread NumPy \`svd\` in a loop), same run:

\`\`\`
$(DELTOP_SHARED=$shared scripts/erank_rate.sh 2>&1 | sed 's/[[:space:]]*$//' || true)
\`\`\`

## Tokenizing

\`bench/tokenizer_speed.sh\`: whole documents, one thread, beside the Python \`tokenizers\` library, same run:

\`\`\`
$(DELTOP_SHARED=$shared bench/tokenizer_speed.sh 2>&1 | sed 's/[[:space:]]*$//' || true)
\`\`\`

## Recurrences on a CPU

The step form, register-tiled, against the chunked (WY) form, \`build/tests/test_recurrence_rate\`:

\`\`\`
$(build/tests/test_recurrence_rate 2>&1 | grep measured || true)
\`\`\`

## Opening

\`deltop inspect deltanet\`: $(timed ./deltop inspect "$model" | awk '{ printf "%.0f ms", 1000 * $1 }').
EOF
