#!/bin/bash
# Runs the tests of the CUDA backend where there is a GPU and no compiler: test programs and
# deltop-cuda.so were built elsewhere (make test-gpu does both in one place). From the repository root:
#   scripts/gpu_check.sh [FOLDER]
# FOLDER holds test_cuda_ops, test_cuda_fused, test_cuda_recurrence, test_cuda_rows, test_cuda_svals, test_cuda_spectrum and
# test_cuda_models (default build/tests), and deltop-cuda.so unless that lies in the repository root. Libraries that the machine lacks may lie in
# FOLDER/lib. $DELTOP_SHARED or ../shared: reference data, skipped when absent. Without a device the
# tests fail here. Exit status 1 when a program failed.
set -u
folder=${1:-build/tests}
so=$folder/deltop-cuda.so
[ -r "$so" ] || so=deltop-cuda.so
if [ ! -r "$so" ]; then
    echo "no deltop-cuda.so in $folder nor in $PWD"
    exit 1
fi
export DELTOP_CUDA_SO=$(realpath "$so") DELTOP_NEED_GPU=1
export OMP_WAIT_POLICY=${OMP_WAIT_POLICY:-passive}
[ -d "$folder/lib" ] && export LD_LIBRARY_PATH=$(realpath "$folder/lib")${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
nvidia-smi --query-gpu=name,driver_version,compute_cap,memory.total --format=csv,noheader 2>/dev/null
bad=""
for name in test_cuda_ops test_cuda_fused test_cuda_recurrence test_cuda_rows test_cuda_svals test_cuda_spectrum test_cuda_models; do
    echo "== $name"
    start=$(date +%s)
    stdbuf -oL "$folder/$name" 2>&1 || bad="$bad $name"
    echo "== $name: $(($(date +%s) - start)) s"
done
if [ -n "$bad" ]; then
    echo "failed:$bad"
    exit 1
fi
echo "all passed"
