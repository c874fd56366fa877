# What bash would offer:   bash ask.bash SCRIPT LINE...
# For each LINE, cut where readline cuts it, one line of offers with a blank between them.
source "$1"
shift
for line; do
    COMP_LINE=$line
    COMP_POINT=${#line}
    cut=${line//=/ = }
    COMP_WORDS=(${cut//:/ : })
    [[ $line == *' ' ]] && COMP_WORDS+=('')
    COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
    COMPREPLY=()
    _deltop
    echo "${COMPREPLY[*]}"
done
