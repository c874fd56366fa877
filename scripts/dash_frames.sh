#!/bin/sh
# Makes the frames of docs/frames from examples/: deterministic, so a change shows as a difference.
#   scripts/dash_frames.sh [FOLDER]
set -eu
cd "$(dirname "$0")/.."
to=${1:-docs/frames}
mkdir -p "$to"
export LC_ALL=C.UTF-8 DELTOP_CONFIG=/dev/null
text=examples/text_kjv.txt
a=examples/small-deltaproduct2 b=examples/small-deltanet g=examples/small-gated-deltaproduct2
frame() { # NAME ROWSxCOLS WORDS...
    name=$1 size=$2
    shift 2
    ./deltop view "$@" --snapshot "$size" --device cpu --threads 2 >"$to/$name.txt"
}
frame 80x24 24x80 $a $text --length 8k --at 5742 --head L1.H1
frame 120x40 40x120 $a $b $text --length 8k --at 5742 --head L1.H1 --marked L3.H1 --panels 1,2,3,4,6,7,8,9,5
frame 200x60 60x200 $g $b $text --length 8k --at 5742 --head L1.H1 --marked L3.H1,L2.H3 \
    --panels 0,1,2,3,4,5,6,7,8,9 --window 8
frame 80x24-ascii 24x80 $a $text --length 8k --at 5742 --head L1.H1 --glyphs ascii
frame 40x10 10x40 $a $text --length 8k --at 5742 --focus 2
frame eigenvalues 40x120 $g $text --length 8k --at 5742 --window 4 --panels 4 --focus 4 --zoom
