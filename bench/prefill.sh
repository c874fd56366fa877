#!/bin/bash
# Whole-model prefill with per-token losses on a GPU: DeltaProduct 392M (24 layers of 1024, 8 heads of
# 128, n_h = 2, vocabulary 32000), random bfloat16 weights, `deltop loss` over 262144 tokens.
#   bench/prefill.sh [FOLDER]
# makes the model in FOLDER (default build/dp392; needs NumPy, 0.8 GB) unless it is there. For every
# block length: the median time from a block's start to the next one's, the first left out, by events on
# the device: gaps and the host's part included; beside it the median time the device takes for a block, the
# host's until all of it is in the stream, and the number of kernels and products. Where the host's time is the
# smaller one, the device never waits inside a block. Then one run's time by operation (its events cost a few
# percent).
# $DELTOP: the program (default ./deltop).
set -eu
folder=${1:-build/dp392}
deltop=${DELTOP:-./deltop}
[ -s "$folder/ids.npy" ] || python3 "$(dirname "$0")/prefill_model.py" "$folder"
nvidia-smi --query-gpu=name,driver_version --format=csv,noheader
run() { # TRACE BLOCK LENGTH
    DELTOP_CUDA_TRACE=$1 "$deltop" loss --device cuda --precision bf16 "$folder" "$folder/ids.npy" \
        --length "$3" --block "$2" --quiet 2>&1 >/dev/null
}
rate() { # BLOCK NOTE
    run 2 "$1" 262144 | awk -v block="$1" -v note="${2:-}" '
        function median(t, n,    i, j, x) {
            for (i = 1; i <= n; i++) for (j = i + 1; j <= n; j++) if (t[j] < t[i]) { x = t[i]; t[i] = t[j]; t[j] = x }
            return n % 2 ? t[(n + 1) / 2] : (t[n / 2] + t[n / 2 + 1]) / 2
        }
        /^cuda block.*next/ { if (n++) { t[n - 1] = $5; device[n - 1] = $3; host[n - 1] = $11; launches = $13 } }
        END { n--
              m = median(t, n)
              printf "measured: blocks of %d tokens: %.2f ms (%.2f to %.2f, %d blocks), %.0f tokens/s; device %.2f ms, host %.2f ms, %d launches%s\n", block, m, t[1], t[n], n, block / m * 1000, median(device, n), median(host, n), launches, note }'
}
for block in 32768 16384 4096; do
    rate "$block"
done
DELTOP_CUDA_HEURISTICS=1 rate 32768 " (products in the heuristics' order)"
echo "by operation, 8 blocks of 32768:"
run 1 32768 262144 | grep -v "^cuda block"
