#!/bin/bash
# The main job on examples/: three small models trained on 512 tokens read 32768.
#   scripts/demo.sh [OUT]     (default demo-out)
set -eu
out=${1:-demo-out}
models="examples/small-deltanet examples/small-deltaproduct2 examples/small-gated-deltaproduct2"
text=examples/text_kjv.txt
rm -rf "$out"
run() {
    echo
    echo "\$ ./deltop $*"
    ./deltop "$@"
}
start=$(date +%s)
run inspect examples/small-deltaproduct2
run loss $models $text --length 32k --out "$out"
run erank $models $text --length 32k --out "$out"
run spectrum $models $text --length 32k --out "$out"
run report $models --doc $text --length 8k --rows 2 --out "$out/report"
run bench --suite quick --out "$out"
cat <<EOF

What the pictures in $out show
  loss.png      Past the training length of 512 tokens DeltaNet's loss climbs most, DeltaProduct's
                less, the gated model's least (about what the text itself adds). The three part
                from 4k tokens on; before that their order changes.
  erank.png     DeltaNet's heads go on filling up; DeltaProduct's rank stays level; the gate keeps
                the state low.
  spectrum.png  A DeltaNet token has real eigenvalues only; DeltaProduct's tokens can have complex
                pairs, rotations: 2 in 100 with a gate, 2 in 10000 without.
  bench.png     Time of every kind of kernel on one core, over the least that it could take.
  report/index.html
                One page over the three models: findings in words, every head in tables that sort.
Beside them: the numbers as CSV, JSON and NPY. Done in $(($(date +%s) - start)) s.

The same live, in a terminal:  ./deltop $models $text
EOF
