#!/bin/bash
# Effective ranks per second, ours with 2 threads beside the published NumPy route with one, taking
# turns on the same machine.
#   scripts/erank_rate.sh [BUILD]        (BUILD defaults to build; TURNS=3, THREADS=2)
# The NumPy side needs python3 with numpy, and DELTOP_SHARED (default ../shared) for
# peers/erank_authors.py; without them only ours is printed. Both sides count singular values and
# effective rank, not the making of the states.
# Threads are bound to cores: calls of a few milliseconds otherwise run with both threads on one core
# while the other idles, until the kernel notices (measured: half the rate).
set -eu
build=${1:-build} turns=${TURNS:-3} threads=${THREADS:-2}
shared=${DELTOP_SHARED:-../shared}
peer=$shared/peers/erank_authors.py
program=$build/tests/test_svals_rate
[ -x "$program" ] || make "$program" >&2

numpy=no
if [ -f "$peer" ] && python3 -c 'import numpy' 2>/dev/null; then numpy=yes; fi
[ $numpy = yes ] || echo "SKIP: no python3 with numpy, or no $peer"

for turn in $(seq "$turns"); do
    out=$(OMP_PROC_BIND=true OMP_NUM_THREADS=$threads "$program" 2>/dev/null | grep '^measured')
    for n in 32 64 128; do
        ours=$(sed -n "s/^measured svals ${n}x$n f32: \([0-9]*\) .*/\1/p" <<<"$out")
        if [ $numpy = yes ]; then
            theirs=$(OPENBLAS_NUM_THREADS=1 python3 "$peer" --dim "$n" --threads 1 --out /dev/null |
                sed -n 's/.*each (\([0-9]*\)\/s.*/\1/p')
            awk -v n="$n" -v a="$ours" -v b="$theirs" -v t="$threads" -v turn="$turn" 'BEGIN {
                printf "measured turn %d, %dx%d: %d/s with %d threads, NumPy %d/s with 1, ratio %.1f\n",
                    turn, n, n, a, t, b, a / b }'
        else
            echo "measured turn $turn, ${n}x$n: $ours/s with $threads threads"
        fi
    done
done
