#!/bin/bash
# Says which test covers which row: faults B1, B2 ... and facts G01 ..., S01 ... of the project's own
# lists. A test names a row in its name (B12_a_shape_..., b12_a_shape_...) or in a comment right above
# it or inside it. Exit status 1 when a row of the list below has no test.
#   scripts/fault_coverage.sh [ID...]
set -eu
cd "$(dirname "$0")/.."
faults="1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 21 22 23 24 27 29 32 33 34 35 39 40 43 44 45 47 49 57 58 59 60
62 67 68 69 70 71 72 74 75 76 77 78 79 80 81 82 83 84 85 86 87 88 89 90 91 92 93 94 95 96 97 98 99 100 102 103 105 108
113 114 118 120 121 123 124 126 127 128 129 130 131 132 133 134 135 136
20 25 26 28 30 31 36 37 38 50 51 52 53 54 55 61 63 64 65 66 73 106 107 109 110 111 115 116 117 122"
facts="G01 G02 G03 G04 G05 G06 G07 G08 G09 G10 G11 G12 G13 G14 G15 G16 S01 S02 S03 S04 S05 S06 S07"
ids=${*:-$(printf 'B%s ' $faults) $facts}

awk -v wanted="$ids" '
function note(id, test) {
    if (!((id, test) in seen)) {
        seen[id, test] = 1
        if (n[id]++ == 0) first[id] = test
    }
}
# Ids written in capitals in a line of prose.
function from_prose(line, into,    w, k, i) {
    k = split(line, w, /[^A-Za-z0-9]+/)
    for (i = 1; i <= k; i++)
        if (w[i] ~ /^[BGS][0-9]+$/) into[w[i]] = 1
}
function begin_test(name,    w, k, i, id) {
    test = name " (" FILENAME ")"
    k = split(name, w, "_")
    for (i = 1; i <= k; i++)
        if (w[i] ~ /^[BGS][0-9]+$/ || (i == 1 && w[i] ~ /^[bgs][0-9]+$/)) {
            id = toupper(w[i])
            note(id, test)
            if (!named[id]++) first[id] = test # the best witness
        }
    for (id in above) note(id, test)
    delete above
    inside = 1
}
FNR == 1 { inside = 0; delete above }
wrapped { wrapped = 0; name = $1; sub(/\).*/, "", name); begin_test(name); next }
/^\/\// { if (!inside) from_prose($0, above); next }
/^TEST\($/ { wrapped = 1; next }
/^TEST\(/ || /^static void [A-Za-z0-9_]+\(void \*\*/ {
    name = $0
    sub(/^TEST\(/, "", name); sub(/^static void /, "", name); sub(/[^A-Za-z0-9_].*/, "", name)
    begin_test(name)
    next
}
/^}/ { inside = 0; delete above; next }
inside && /\/\// {
    delete here
    from_prose(substr($0, index($0, "//")), here)
    for (id in here) note(id, test)
    next
}
!inside && !/^[ \t]*$/ { delete above } # a helper, a table: its comment is not about a test
END {
    k = split(wanted, rows, /[ \n]+/)
    for (i = 1; i <= k; i++) {
        if (rows[i] == "") continue
        if (n[rows[i]]) printf "%-5s %s%s\n", rows[i], first[rows[i]], (n[rows[i]] > 1 ? " and " (n[rows[i]] - 1) " more" : "")
        else { printf "%-5s NO TEST\n", rows[i]; missing++ }
    }
    if (missing) printf "%d rows without a test\n", missing
    exit (missing > 0)
}' tests/test_*.c
