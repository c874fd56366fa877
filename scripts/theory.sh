#!/bin/bash
# Writes docs/theory.md: how far constructions and trained group models get on their word problems.
#   scripts/theory.sh [WORDS_TRAINED] > docs/theory.md      (default 4096; some minutes on two cores)
# Options for deltop words (a device, say) may stand in $DELTOP_WORDS; with ARITHMETIC=no the last section, minutes of CPU
# time on how one model depends on rounding, is left out; the Python of an environment with PyTorch and
# flash-linear-attention in $FLA_PYTHON (scripts/fla_reads_theory.py), without which what FLA makes of them is left out.
set -eu
cd "$(dirname "$0")/.."
trained=${1:-4096}
shared=${DELTOP_SHARED:-../shared}
deltop=${DELTOP:-./deltop}
how=${DELTOP_WORDS:---device cpu --precision f32}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# field FILE NAME: the number behind "NAME": in one-line-a-key JSON.
field() {
    sed -n "s/.*\"$2\": \([^,}]*\).*/\1/p" "$1" | head -1
}

cat <<EOF
# Word problems: what constructions and trained models get right

Made by \`scripts/theory.sh\` on $(date -u +%Y-%m-%d); \`deltop words ... $how\`.

## Constructions

\`deltop theory NAME --out DIR\` writes the checkpoint, \`deltop words DIR --length 4096 --count 32\` reads 32 random words of 4096 tokens from disk
through the whole model. A word counts when all of its 4096 answers are right. The margin is 1 less the largest cosine between the ideal
read-outs of two answers: what rounding may not use up. \`deltop theory --explain NAME\` tells how each works.

| construction | ids | layers | n_h | heads x K x V | width | parameters | margin | words right | answers right |
|---|---|---|---|---|---|---|---|---|---|
EOF
for name in s2 s3 s4 s5 s6 s3-rotations a4-rotations s4-rotations a5-rotations c3 mod3 c16 \
    d2-rotations d5-rotations d16-rotations d2 d3 d4 d5 d6 d7 d8 d16 s3-lookup parity flip-flop \
    mod3-reset mod16-reset five-state; do
    "$deltop" theory "$name" --out "$work/m" --quiet >/dev/null
    "$deltop" theory "$name" --json >"$work/t.json"
    "$deltop" words "$work/m" --length 4096 --count 32 --quiet $how --json >"$work/w.json"
    ids=$("$deltop" theory --explain "$name" | sed -n '1s/.*\[\(.*\)\].*/\1/p')
    t=$work/t.json w=$work/w.json
    printf '| %s | %s | %s | %s | %s x %s x %s | %s | %s | %.3g | %s of 32 | %.6f |\n' "$name" "$ids" \
        "$(field $t layers)" "$(field $t n_h)" "$(field $t heads)" "$(field $t K)" "$(field $t V)" \
        "$(field $t hidden_size)" "$(field $t parameters)" "$(field $t margin)" \
        "$(field $w without_mistake)" "$(field $w mean)"
    if [ -n "${FLA_PYTHON:-}" ]; then mkdir -p "$work/fla" && mv "$work/m" "$work/fla/$name"; fi
    rm -rf "$work/m"
done
cat <<EOF

In bfloat16 they are not exact: a key of 8 bits is up to 0.2 % off its direction, and every reflection adds that. \`verify --device\` and
\`words --precision f32\` run them in float32 on a GPU (bench/results/h200-theory.md). Not written at all, because FLA's layout has no room for them (\`theory --list\`):
the swap and copy factors of RWKV-7 (T07: its rate stays below 1, so no eigenvalue below 0), cascades of automata (T06: the Krohn-Rhodes
decomposition is not computed), and look-up tables beyond S3 (T03: 1327104 hidden units for S4 with n_h = 2).

EOF
if [ -n "${FLA_PYTHON:-}" ]; then
    found=$("$FLA_PYTHON" scripts/fla_reads_theory.py "$work"/fla/* 2>/dev/null || true)
    cat <<EOF
FLA itself loads and runs them, says \`scripts/fla_reads_theory.py\` ($(head -1 <<<"$found")): $(tail -1 <<<"$found").
It opens each with FLA's \`from_pretrained\`, then lets FLA's own model code read random words. FLA's Triton kernels need a GPU, so three of them are replaced by plain
PyTorch: the recurrence by FLA's own \`naive_recurrent_gated_delta_product\`, RMSNorm and SwiGLU by their formulas. FLA's chunk kernels on a GPU have not read them.

EOF
    rm -rf "$work/fla"
fi
ls "$shared"/checkpoints/group-*/group.json >/dev/null 2>&1 || exit 0
cat <<EOF
## Trained models

Three models with 8 heads of 32, trained on words of 128 tokens, read $trained random words of 512; beside them the accuracies that another
program measured on 1024 words (a standard error of up to 0.016 a position). \`deltop words MODEL --count $trained --mechanism\`; the columns
compare accuracies at a position. The head is the one whose transitions multiply most like the group: the median over pairs of
|A_g A_h - A_gh| over |A_g - A_h| on the leading directions of its states, and the elements that it gets wrong.

| model | accuracy, positions 1-128 | 129-512 | last 32 | the peer's last 32 | first 32 positions, largest difference | blocks of 32, largest | head | directions | median error | odd elements |
|---|---|---|---|---|---|---|---|---|---|---|
EOF
for g in "$shared"/checkpoints/group-*; do
    "$deltop" words "$g" --count "$trained" --mechanism --quiet $how --out "$work/g" >"$work/text"
    head=$(grep -m1 -E '^  L[0-9]+\.H' "$work/text" | awk '{ print $1 " | " $2 " | " $3 }')
    odd=$(sed -n 's/.*represented but for [0-9]* elements*: //p' "$work/text")
    ${PYTHON:-python3} - "$work/g/words.npy" "$g/peer_accuracy_512.npy" "$(basename "$g")" "$head" "${odd:--}" <<'PY'
import sys
import numpy as np

ours, peer = np.load(sys.argv[1])[0], np.load(sys.argv[2])
gap = ours - peer
print("| %s | %.4f | %.4f | %.4f | %.4f | %.4f | %.4f | %s | %s |" % (
    sys.argv[3], ours[:128].mean(), ours[128:].mean(), ours[-32:].mean(), peer[-32:].mean(),
    abs(gap[:32]).max(), abs(gap.reshape(-1, 32).mean(1)).max(), sys.argv[4], sys.argv[5]))
PY
    rm -rf "$work/g"
done
[ "${ARITHMETIC:-yes}" = no ] && exit 0
s4=$shared/checkpoints/group-s4-nh2-l1
for p in f32 f64; do
    "$deltop" words "$s4" --count 256 --seed 1 --quiet --device cpu --precision $p --json >"$work/$p"
done
last() { sed -n 's/.*"accuracy": \[\([^]]*\)\].*/\1/p' "$1" | awk -F', ' '{ printf "%.4f", $NF }'; }
oracle() { ${PYTHON:-python3} scripts/group_oracle.py "$s4" "$1" "$2" | awk 'END { print $NF }'; }
${PYTHON:-python3} scripts/group_oracle.py "$s4" 1500 autocast >"$work/autocast"
cat <<EOF

Where the three directions of group-s4-nh2-l1 begin to blur, past position 400, accuracy depends on the arithmetic that keys and states go through.
Last 32 positions:

| what | words | accuracy |
|---|---|---|
| deltop, float32 | 256 | $(last "$work/f32") |
| deltop, float64, the same words | 256 | $(last "$work/f64") |
| a plain program, float32, other words (\`scripts/group_oracle.py MODEL 900 f32\`) | 900 | $(oracle 900 f32) |
| the same, weights and activations rounded to bfloat16 (\`... 1500 bf16\`) | 1500 | $(oracle 1500 bf16) |
| the same as FLA under autocast: chunks, bfloat16 products, float32 residual stream (\`... 1500 autocast\`) | 1500 | $(awk 'END { print $NF }' "$work/autocast") |
| the peer, in a precision that is not recorded | 1024 | $(${PYTHON:-python3} -c "import numpy; print('%.4f' % numpy.load('$s4/peer_accuracy_512.npy')[-32:].mean())") |

$(${PYTHON:-python3} - "$work/autocast" "$s4/peer_accuracy_512.npy" <<'PY'
import sys
import numpy as np

ours = np.array([float(x) for x in open(sys.argv[1]).read().split("\n")[-2].split()])
peer = np.load(sys.argv[2]).reshape(-1, 32).mean(1)
print("| block of 32 positions from | 353 | 385 | 417 | 449 | 481 | largest difference of all 16 |\n|---|---|---|---|---|---|---|")
print("| FLA's arithmetic, plain program | %s | %.4f |" % (" | ".join("%.4f" % a for a in ours[-5:]), abs(ours - peer).max()))
print("| the peer | %s | |" % " | ".join("%.4f" % a for a in peer[-5:]))
PY
)

So the difference from the peer in the last three blocks is its arithmetic, not the words: exact float32 and float64 agree with each other and with the plain
program, and with the roundings that FLA makes under \`torch.autocast\` in bfloat16 the same plain program has the peer's accuracy in every block (a run of 1024 words has a standard
error of $(sed -n '1s/.*error of \([0-9.]*\).*/\1/p' "$work/autocast") in the last one). Which sums
are rounded decides: token by token, the same 8 bits give 0.94 instead.
EOF
