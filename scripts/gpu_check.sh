#!/bin/bash
# Runs the tests of the CUDA backend where there is a GPU and no compiler: test programs and
# deltop-cuda.so were built elsewhere (make test-gpu does both in one place). From the repository root:
#   scripts/gpu_check.sh [FOLDER]
# FOLDER holds test_cuda_ops, test_cuda_fused, test_cuda_recurrence, test_cuda_rows, test_cuda_svals, test_cuda_spectrum and
# test_cuda_models (default build/tests), and deltop-cuda.so unless that lies in the repository root. Libraries that the machine lacks may lie in
# FOLDER/lib. $DELTOP_SHARED or ../shared: reference data, skipped when absent. Without a device the
# tests fail here. Every test is a process of its own ($JOBS of them at a time, default a quarter of the cores but at least two; references are
# computed on the CPU, so the cores are what takes time), but those that fill the device's memory come alone, at the end. Exit status 1 when a test failed or none ran.
set -u
folder=${1:-build/tests}
so=$folder/deltop-cuda.so
[ -r "$so" ] || so=deltop-cuda.so
if [ ! -r "$so" ]; then
    echo "no deltop-cuda.so in $folder nor in $PWD"
    exit 1
fi
cores=$(nproc)
jobs=${JOBS:-$((cores / 4 > 2 ? cores / 4 : 2))}
export DELTOP_CUDA_SO=$(realpath "$so") DELTOP_NEED_GPU=1
export OMP_WAIT_POLICY=${OMP_WAIT_POLICY:-passive}
export OMP_NUM_THREADS=${OMP_NUM_THREADS:-$((cores / jobs > 1 ? cores / jobs : 1))}
[ -d "$folder/lib" ] && export LD_LIBRARY_PATH=$(realpath "$folder/lib")${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
nvidia-smi --query-gpu=name,driver_version,compute_cap,memory.total --format=csv,noheader 2>/dev/null
logs=$(mktemp -d)
trap 'rm -rf "$logs"' EXIT
# one FOLDER/PROGRAM TEST: its output and verdict; a test that is not there passes nothing.
one() {
    local start verdict=FAILED name log
    name=$(basename "$1")
    log=$logs/$name.$2 # two programs may have a test of the same name
    start=$(date +%s)
    if stdbuf -oL "$1" "$2" > "$log" 2>&1; then
        grep -q "^\[       OK \] $2\$" "$log" && verdict=passed
        grep -q "^\[  SKIPPED \] $2\$" "$log" && verdict=skipped
    fi
    echo "== $name $2: $verdict, $(($(date +%s) - start)) s" >> "$log"
    grep -vE "^\[(=+|  PASSED  )\]" "$log"
}
export -f one
export logs
# The slow ones begin first.
for name in test_cuda_recurrence test_cuda_rows test_cuda_models test_cuda_fused test_cuda_spectrum test_cuda_ops test_cuda_svals; do
    tr -d '\n ' < "tests/$name.c" | grep -oE "cmocka_unit_test\([A-Za-z0-9_]+" | sed "s|.*(|$folder/$name |"
done > "$logs/.all"
alone='a_block_that_does_not_fit_is_out_of_memory|a_block_fits_beside_another_job'
grep -vE " ($alone)\$" "$logs/.all" | xargs -P "$jobs" -L 1 bash -c 'one "$0" "$1"'
grep -E " ($alone)\$" "$logs/.all" | xargs -L 1 bash -c 'one "$0" "$1"'
count() { cat "$logs"/* | grep -c "^== .*: $1,"; }
passed=$(count passed) skipped=$(count skipped) all=$(wc -l < "$logs/.all")
echo "$passed of $all tests passed, $skipped skipped"
[ "$passed" -gt 0 ] && [ $((passed + skipped)) -eq "$all" ]
