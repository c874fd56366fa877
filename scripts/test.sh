#!/bin/bash
# Runs test programs one after the other and adds up their cmocka results.
#   scripts/test.sh BUILD TEST...
# Exit status 77 of a program, or a printed "SKIP: reason", marks what could not run here.
# Threads that wait go to sleep: spinning costs a test ten times its work when other programs want
# the cores too (measured: 20 s of processor time against 2 s).
set -u
export OMP_WAIT_POLICY=${OMP_WAIT_POLICY:-passive}
# Test programs do not lie beside the CUDA backend.
export DELTOP_CUDA_SO=${DELTOP_CUDA_SO:-$PWD/deltop-cuda.so}
build=$1
shift
passed=0 failed=0 skipped=0 bad=""
log=$build/test.log
: >"$log"
# cpu = processor time of all children so far, in seconds. Not in a subshell, whose children are
# others.
read_cpu() {
    times >"$build/test.times"
    cpu=$(awk 'NR == 2 { gsub(/m/, " "); gsub(/s/, ""); print 60 * $1 + $2 + 60 * $3 + $4 }' "$build/test.times")
}
read_cpu
first=$cpu
for t in "$@"; do
    name=$(basename "$t")
    start=$(date +%s.%N)
    out=$("$t" 2>&1)
    rc=$?
    took=$(awk -v a="$start" -v b="$(date +%s.%N)" 'BEGIN { printf "%.1f", b - a }')
    before=$cpu
    read_cpu
    spent=$(awk -v a="$before" -v b="$cpu" 'BEGIN { printf "%.1f", b - a }')
    printf '== %s\n%s\n' "$name" "$out" >>"$log"
    p=$(grep -c '^\[       OK \]' <<<"$out")
    f=$(grep -c '^\[  FAILED  \] [A-Za-z_]' <<<"$out")
    s=$(grep -c '^\[  SKIPPED \] [A-Za-z_]' <<<"$out")
    f=$((f / 2)) s=$((s / 2)) # cmocka names each twice: when it happens and in its summary
    if [ $rc -ne 0 ] && [ $rc -ne 77 ] && [ "$f" -eq 0 ]; then f=1; fi
    passed=$((passed + p)) failed=$((failed + f)) skipped=$((skipped + s))
    printf '%-28s %4d ok %3d failed %3d skipped  %6s s, cpu %6s s\n' "$name" "$p" "$f" "$s" "$took" "$spent"
    grep -hE '^ *(measured|SKIP)' <<<"$out" | sed 's/^ */    /'
    if [ "$f" -gt 0 ]; then
        bad="$bad $name"
        grep -v '^\[ *\(RUN\|OK\)' <<<"$out" | tail -40
    fi
done
[ -n "$bad" ] && echo "failed:$bad (whole output: $log)"
awk -v a="$first" -v b="$cpu" 'BEGIN { printf "%.0f s of processor time\n", b - a }'
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
