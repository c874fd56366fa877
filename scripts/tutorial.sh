#!/bin/bash
# Writes docs/tutorial.md: every command in it is run here, and what it printed stands below it; a line
# of … stands for what is left out.
#   scripts/tutorial.sh > docs/tutorial.md      (pictures go to docs/pictures/tutorial-*.png)
set -eu
cd "$(dirname "$0")/.."
here=$PWD
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cp deltop "$work/"
cd "$work"
export LC_ALL=C.UTF-8

# Prints a command to paste, and what it says; $lines cuts the output, and a line of … marks the cut.
show() {
    local said kept
    said=$(bash -c "$*" 2>&1)
    kept=$(sed -n "${lines:-1,\$p}" <<<"$said")
    printf '```sh\n%s\n```\n\n```\n%s\n' "$*" "$kept"
    [ "$kept" = "$said" ] || echo …
    printf '```\n\n'
}
# The same without what it says.
quietly() {
    printf '```sh\n%s\n```\n\n' "$*"
    bash -c "$*" >/dev/null 2>&1
}
picture() { # FILE NAME TEXT
    cp "$1" "$here/docs/pictures/tutorial-$2.png"
    printf '![%s](pictures/tutorial-%s.png)\n\n' "$3" "$2"
}

cat <<'EOF'
# Ten minutes with models whose answers are known

No download, no GPU. Papers prove what linear RNNs can compute; `deltop theory` writes the models that the proofs describe, as checkpoints like any
other. So you can look at a recurrent state and know what should be there. Paste the commands into a shell in the folder where you built `deltop`.
(This page is made by `scripts/tutorial.sh`. Below a command stands what it printed: a line of … marks where the rest is left out, and nothing stands where
only the files that it wrote matter.)

## 1. Two mirrors make a rotation

A delta rule changes its state by a factor I - beta k k'. With beta = 2 that is a mirror. One mirror has real eigenvalues; two in one token do not:

EOF
lines=1,16p show ./deltop verify --demo rotation

cat <<'EOF'
## 2. A model that counts modulo 3

That rotation is a counter: three of them are nothing at all. Here it is as a checkpoint, with config, safetensors and tokenizer:

EOF
show ./deltop theory mod3 --out mod3
cat <<'EOF'
Its tokens are `r0`, `r1`, `r2` (turn by nothing, once, twice); after each token it should name the turn so far. `words` reads random words and counts how
often it does, at each position, and without a mistake up to there:

EOF
lines='1,/without a mistake/p' show ./deltop words mod3 --length 4k --count 32
cat <<'EOF'
4096 tokens, and it never slips: a trained model that was shown 128 rarely gets that far. `sample.npy` is one such word, for the other commands. What
the transitions of single tokens and of windows of tokens do:

EOF
quietly ./deltop spectrum mod3 mod3/sample.npy --length 1025 --lyapunov 512 --out mod3-spectrum-out
picture mod3-spectrum-out/spectrum.png mod3 "spectrum of the mod-3 counter"
cat <<'EOF'
Every eigenvalue lies on one of the three third roots of unity: that is what counting modulo 3 looks like. (The one at 0 is BOS, which writes the start state.) Nothing decays (half-lives of 500000
tokens: the 1e-6 in FLA's L2 norm of a key takes that little).

## 3. Permutations: three mirrors a token

The group S4 has 24 elements; each is at most three swaps of two things, and a swap is a mirror with key (e_a - e_b)/√2. So n_h = 3 will do, in one layer:

EOF
quietly ./deltop theory s4 --out s4
lines=1,28p show ./deltop words s4 --length 512 --count 64 --mechanism
cat <<'EOF'
`error` compares A_g A_h with A_gh for the learned (here: constructed) transitions: 1e-5 means that this head *is* a representation of the group.
`det` is -1 for odd permutations. On a trained model the same table finds the head that does it, and the elements that it gets wrong.

The state is a permutation matrix (less its mean), whatever was read. So its effective rank is 3 at every token, and its norm stays:

EOF
lines=1,9p show ./deltop erank s4 s4/sample.npy --length 4k
cat <<'EOF'
`./deltop s4 s4/sample.npy` opens the same in the dashboard: `?` lists the keys, `Tab` goes to the next panel, the arrows move its cursor (over heads in
panel 1, where this model has but one, over tokens in the curves), `w` and `W` change the window, `q` leaves. `--snapshot ROWSxCOLS` prints one frame of it:

EOF
show ./deltop view s4 s4/sample.npy --length 256 --snapshot 24x80 --window 4 --panels 1,2,4,5,6
cat <<'EOF'
One head, whose rank stays 3; the write strengths are 2 or 0 (panel 6), and the product of four tokens has its eigenvalues on the unit circle (panel 4: a
digit counts those in a cell). The losses say nothing here: the model names the product so far, not the next random element.

EOF
cat <<'EOF'
## 4. What beta up to 2 is for

`--force-beta-max 1` cuts every write strength to 1, as in a model without negative eigenvalues. Mirrors become projections, and projections forget:

EOF
lines='1,/without a mistake/p' show ./deltop words s4 --length 64 --count 256 --force-beta-max 1
cat <<'EOF'
(An intervention on a finished model says less than a model trained that way; pictures and JSON label it.)

## 5. One mirror a token, two layers

With n_h = 1, t tokens have determinant (-1)^t, so rotations and reflections cannot both be right in one layer. Two layers can: the first keeps a sign,
the second chooses its mirror by it.

EOF
show ./deltop theory --explain d5
quietly ./deltop theory d5 --out d5
lines='1,/without a mistake/p' show ./deltop words d5 --length 5 --all
cat <<'EOF'
All 100000 words of five tokens are right.

## 6. Your own automaton

Any automaton whose tokens either permute its states or reset them to one fits in a layer with a forget gate. A turnstile that jams:

EOF
cat >turnstile.json <<'EOF'
{"automaton": "turnstile",
 "tokens": ["coin", "push", "repair", "swap"],
 "states": ["locked", "open", "jammed"], "start": "locked",
 "next": {"locked": {"coin": "open", "push": "locked", "repair": "locked", "swap": "jammed"},
          "open":   {"coin": "open", "push": "locked", "repair": "locked", "swap": "open"},
          "jammed": {"coin": "open", "push": "locked", "repair": "locked", "swap": "locked"}}}
EOF
printf '```sh\ncat > turnstile.json <<"END"\n'
cat turnstile.json
printf 'END\n```\n\n'
quietly ./deltop theory turnstile.json --out turnstile
lines='1,/without a mistake/p' show ./deltop words turnstile --length 2k --count 32
cat <<'EOF'
## 7. Is this program right?

Every formula that it rests on is a check with a measured error, in float64 and on the device that you will use (`--device cuda` for a GPU):

EOF
lines=1,8p show ./deltop verify --only R06,R12,R13,G03,G12
cat <<'EOF'
`deltop verify` alone runs all of them in seconds. Where two factors with keys at an angle can have complex eigenvalues at all (DeltaProduct's
Proposition 1):

EOF
quietly ./deltop verify --plot prop1 --cos 0.5 --out prop1-out
picture prop1-out/prop1.png prop1 "region of complex eigenvalues"
cat <<'EOF'
## Where to go on

`deltop theory --list` shows all constructions and what FLA's layout has no room for; [theory.md](theory.md) how far each gets; `deltop words MODEL` reads
your own group models (a `group.json` beside the weights names elements, BOS and multiplication order); `deltop explain --table` compares the recurrences.
EOF
