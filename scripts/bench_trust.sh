#!/bin/bash
# Can `deltop compare` be trusted on this machine? Measures the quick suite again and again with one
# binary and counts verdicts of change, then with one operation really doing 15 % more work (--slow) and
# counts how often that is found. Prints a Markdown table.
#   scripts/bench_trust.sh [PAIRS] [DIR]      (20 pairs take about 10 minutes; DIR keeps the results)
set -eu
pairs=${1:-20}
dir=${2:-$(mktemp -d)}
mkdir -p "$dir"
cp deltop "$dir/deltop-under-test" # a build in between does not change what is measured
deltop=$dir/deltop-under-test
ops=(gdn deltanet deltaproduct gdeltaproduct kda gla mamba2 rwkv7 comba conv rmsnorm l2norm loss erank window)
cpu=$(awk -F': ' '/model name/ { print $2; exit }' /proc/cpuinfo)
echo "# Can a comparison be trusted here?"
echo
echo "Each pair: the quick suite once more with the same binary, compared with the run before (A/A: every verdict of change"
echo "is false); then with one operation that really does 15 % more work (\`--slow\`), compared with that (found: SLOWER)."
echo
echo "\`scripts/bench_trust.sh $pairs\`, $(date +%F): $cpu, $(nproc) cores, $($deltop --version | head -1)"
echo
echo "| pair | load | A/A | false | slowed by 15 % | found | ratio of the slowed rows | other rows flagged |"
echo "|---:|---:|---|---:|---|---|---|---:|"
"$deltop" bench --suite quick --out "$dir/a0" --quiet >/dev/null
false_all=0 found_all=0 other_all=0
count() { # FILE NAME...: rows of a compare.csv with a verdict of change; of NAME only with a third word
    awk -F, -v op="${2:-}" -v not="${3:-}" '$1 ~ /^(FASTER|SLOWER|WRONG)$/ {
        split($2, part, "."); if (op == "" || (not == "" ? part[1] == op : part[1] != op)) n++ } END { print n + 0 }' "$1"
}
for i in $(seq 1 "$pairs"); do
    op=${ops[$(((i - 1) % ${#ops[@]}))]}
    "$deltop" bench --suite quick --out "$dir/a$i" --quiet >/dev/null
    "$deltop" bench --suite quick --out "$dir/s$i" --slow "$op=15" --quiet >/dev/null
    "$deltop" compare "$dir/a$((i - 1))" "$dir/a$i" --out "$dir/aa$i" --quiet >"$dir/aa$i.txt" 2>/dev/null || true
    "$deltop" compare "$dir/a$i" "$dir/s$i" --out "$dir/as$i" --quiet >"$dir/as$i.txt" 2>/dev/null || true
    wrong=$(count "$dir/aa$i/compare.csv")
    slow=$(awk -F, -v op="$op" '$1 == "SLOWER" { split($2, p, "."); if (p[1] == op) n++ } END { print n + 0 }' "$dir/as$i/compare.csv")
    rows=$(awk -F, -v op="$op" '{ split($2, p, "."); if (p[1] == op) n++ } END { print n + 0 }' "$dir/as$i/compare.csv")
    ratio=$(awk -F, -v op="$op" '{ split($2, p, "."); if (p[1] == op) printf "%s%.3f", s, $5; if (p[1] == op) s = " " }' "$dir/as$i/compare.csv")
    other=$(count "$dir/as$i/compare.csv" "$op" others)
    false_all=$((false_all + (wrong > 0))) other_all=$((other_all + (other > 0)))
    [ "$slow" -gt 0 ] && found_all=$((found_all + 1))
    echo "| $i | $(cut -d' ' -f1 /proc/loadavg) | $(tail -1 "$dir/aa$i.txt") | $wrong | $op | $([ "$slow" -gt 0 ] && echo yes || echo NO) ($slow of $rows) | $ratio | $other |"
done
echo
echo "A/A comparisons with a false verdict: $false_all of $pairs. Slowed operation found: $found_all of $pairs. Comparisons with a slowed operation that flagged another one: $other_all of $pairs."
