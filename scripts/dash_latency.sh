#!/bin/sh
# How fast the dashboard answers while a long document is read: 20 starts (exec to the last row of the
# first frame) and one key every 10 to 130 ms for SECONDS, timed to the frame that shows it.
#   scripts/dash_latency.sh [SECONDS [MODEL DOCUMENT]]
set -eu
cd "$(dirname "$0")/.."
make --no-print-directory deltop build/tests/test_dash_pty >/dev/null
echo "$(date -u +%F), $(nproc) cores, $(uname -m), load $(cut -d' ' -f1 /proc/loadavg)"
DELTOP_LATENCY=${1:-30} DELTOP_LATENCY_MODEL=${2:-examples/small-deltaproduct2} \
    DELTOP_LATENCY_TEXT=${3:-examples/text_kjv.txt} build/tests/test_dash_pty
