# What zsh shows when Tab is pressed twice:   zsh -f ask.zsh FOLDER LINE
# FOLDER holds the file _deltop. A shell on a terminal of its own is typed at.
zmodload zsh/zpty
zpty shell "TERM=dumb COLUMNS=200 zsh -f -i"
hear() {
    local out= piece=
    local -F end=$((EPOCHREALTIME + 15))
    while ((EPOCHREALTIME < end)) && [[ $out != *$1* ]]; do
        if zpty -r -t shell piece; then out+=$piece; else sleep 0.05; fi
    done
    print -r -- "$out"
}
zmodload zsh/datetime
zpty -w -n shell "fpath=(${(q)1} \$fpath); autoload -Uz compinit; compinit -u -D; stty cols 200; print rea''dy"$'\n'
hear ready >/dev/null
zpty -w -n shell "$2"$'\t'
sleep 1
zpty -w -n shell $'\t'
sleep 1
zpty -w -n shell $'\x15print do\'\'ne\n'
hear done
zpty -d shell
