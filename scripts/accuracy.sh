#!/bin/bash
# Prints docs/accuracy.md: what the program computes against what others compute.
#   scripts/accuracy.sh SHARED > docs/accuracy.md      (SHARED: folder with golden, peer, checkpoints)
set -eu
shared=${1:?folder with golden, peer, checkpoints, documents}
# largest error of the rows whose name begins with $2 in the parity text of file $1
largest() { awk -v k="$2" '$1 ~ "^"k { if ($3 + 0 > m) m = $3 + 0; n++ } END { if (n) printf "%.1e", m; else printf "-" }' "$1"; }
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
cpu=$(awk -F': ' '/model name/ { print $2; exit }' /proc/cpuinfo)

cat <<EOF
# Accuracy

What deltop computes against what other programs compute. Made by \`scripts/accuracy.sh\` on $(date +%F)
(CPU: $cpu; $(./deltop --version | sed -n '1p;2p' | paste -sd' ')).

## Reference cases

Tiny random models of every family and layout that is read, with expected values from a plain float64
program (Hugging Face layouts: transformers' own CPU code raised to float64) and a second source each.
Every row: \`deltop parity --precision f64|f32 SHARED/golden/CASE\`. Columns are the largest error over
all layers: losses in nats (allowed 1e-9 in f64; in f32 3e-4 for delta kinds, 1e-4 for the others), states
relative to the largest entry, ranks relative, log gates and summed log decays relative (KDA's dumps are
float32), eigenvalues in units of what their condition allows (1 = at the bound 2e-14 |P|_2 cond). A dash:
the dump has no such file.

| case | model_type | f64 loss | state | rank | log gate | eigenvalues | f32 loss | verdicts |
|---|---|---|---|---|---|---|---|---|
EOF
for d in "$shared"/golden/*/; do
    [ -f "$d/config.json" ] || continue
    c=$(basename "$d")
    type=$(sed -n 's/.*"model_type": *"\([a-z0-9_]*\)".*/\1/p' "$d/config.json" | head -1)
    v64=pass v32=pass
    ./deltop parity --quiet --precision f64 "$d" >"$tmp/64" || v64=FAIL
    ./deltop parity --quiet --precision f32 "$d" >"$tmp/32" || v32=FAIL
    gate=$(largest "$tmp/64" loggate)
    [ "$gate" = - ] && gate=$(largest "$tmp/64" logdecay)
    echo "| $c | ${type:-state-spaces} | $(largest "$tmp/64" nll) | $(largest "$tmp/64" state) | $(largest "$tmp/64" erank) | $gate | $(largest "$tmp/64" 'eig$') | $(largest "$tmp/32" nll) | $v64, $v32 |"
done

cat <<EOF

## Trained models, 32768 tokens

Command: \`make test-trained\`. Of the other families only GLA has a trained checkpoint with FLA's losses
here; hgrn2, rwkv7, retnet, Mamba-2 and the hybrids have none, so nothing is claimed for them beyond the
cases above. "FLA" are the losses of
flash-linear-attention in bf16 on a GPU: largest difference of a stretch's mean (0-512, -2048, -4096,
-8192, -16384, -32768; allowed 3e-3). "float64" is an independent float64 program: the float32 run's
largest difference of a stretch's mean (allowed 1e-4), and the float64 run's largest difference at any
position (allowed 1e-9), of a rank and of a norm (allowed 1e-9 relative, every 64th token, all heads).

| model | document | f32 against FLA | f32 against float64 | f64: any position | rank | norm |
|---|---|---|---|---|---|---|
EOF
DELTOP_TRAINED_LENGTH=32768 DELTOP_SHARED=$shared build/tests/test_trained >"$tmp/trained" || echo "FAILED test_trained" >&2
# GLA has no float64 reference: its row ends early.
awk '$1 == "measured" && $2 == "f32" { k = $3 " | " $4; key[++n] = k; fla[k] = $7; f32[k] = $13 ? $13 : "-" }
     $1 == "measured" && $2 == "f64" { k = $3 " | " $4; sub(",", "", $11); pos[k] = $7; rank[k] = $11; norm[k] = $13 }
     function show(x) { return x == "" ? "-" : x }
     END { for (i = 1; i <= n; i++) { k = key[i]
           print "| " k " | " fla[k] " | " f32[k] " | " show(pos[k]) " | " show(rank[k]) " | " show(norm[k]) " |" } }' "$tmp/trained"
