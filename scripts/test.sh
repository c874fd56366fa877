#!/bin/bash
# Runs test programs one after the other and adds up their cmocka results.
#   scripts/test.sh BUILD TEST...
# Exit status 77 of a program, or a printed "SKIP: reason", marks what could not run here.
set -u
build=$1
shift
passed=0 failed=0 skipped=0 bad=""
log=$build/test.log
: >"$log"
for t in "$@"; do
    name=$(basename "$t")
    start=$(date +%s.%N)
    out=$("$t" 2>&1)
    rc=$?
    took=$(awk -v a="$start" -v b="$(date +%s.%N)" 'BEGIN { printf "%.1f", b - a }')
    printf '== %s\n%s\n' "$name" "$out" >>"$log"
    p=$(grep -c '^\[       OK \]' <<<"$out")
    f=$(grep -c '^\[  FAILED  \] [A-Za-z_]' <<<"$out")
    s=$(grep -c '^\[  SKIPPED \] [A-Za-z_]' <<<"$out")
    f=$((f / 2)) s=$((s / 2)) # cmocka names each twice: when it happens and in its summary
    if [ $rc -ne 0 ] && [ $rc -ne 77 ] && [ "$f" -eq 0 ]; then f=1; fi
    passed=$((passed + p)) failed=$((failed + f)) skipped=$((skipped + s))
    printf '%-28s %4d ok %3d failed %3d skipped  %6s s\n' "$name" "$p" "$f" "$s" "$took"
    grep -hE '^ *(measured|SKIP)' <<<"$out" | sed 's/^ */    /'
    if [ "$f" -gt 0 ]; then
        bad="$bad $name"
        grep -v '^\[ *\(RUN\|OK\)' <<<"$out" | tail -40
    fi
done
[ -n "$bad" ] && echo "failed:$bad (whole output: $log)"
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
