#!/bin/sh
# Installs what the build needs and this machine lacks (Debian names). Asks for root only when
# something is missing; prints the command when it cannot.
set -eu
need="gcc make pkg-config libopenblas-dev liblapacke-dev libncurses-dev libcairo2-dev libpng-dev libjansson-dev
libpcre2-dev libutf8proc-dev libcmocka-dev fonts-dejavu-core"
missing=""
for p in $need; do
    dpkg-query -W -f '${Status}' "$p" 2>/dev/null | grep -q 'install ok installed' || missing="$missing $p"
done
# A package may be satisfied by another one (pkgconf for pkg-config).
if command -v pkg-config >/dev/null 2>&1; then missing=$(echo "$missing" | sed 's/ pkg-config\>//'); fi
# Nice to have: SentencePiece models (tokenizer.model). Taken along when something is installed
# anyway or root is at hand; the build works without.
extra=""
for p in g++ libsentencepiece-dev; do
    dpkg-query -W -f '${Status}' "$p" 2>/dev/null | grep -q 'install ok installed' || extra="$extra $p"
done
if [ -z "$(echo "$missing" | tr -d ' ')" ]; then
    if [ -n "$extra" ] && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
        echo "setup: installing$extra (optional)"
        apt-get install -y -qq --no-install-recommends $extra >/dev/null 2>&1 ||
            echo "setup: could not install$extra; going on without" >&2
    fi
    exit 0
fi
echo "setup: installing$missing"
if ! command -v apt-get >/dev/null 2>&1; then
    echo "setup: no apt-get here. Install the equivalents of:$missing" >&2
    exit 1
fi
root=""
if [ "$(id -u)" != 0 ]; then
    if command -v sudo >/dev/null 2>&1; then
        root=sudo
    else
        echo "setup: not root. Run: apt-get install$missing" >&2
        exit 1
    fi
fi
$root apt-get update -qq || true
$root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $missing >/dev/null || {
    echo "setup: could not install. Run: apt-get install$missing" >&2
    exit 1
}
[ -z "$extra" ] || $root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq \
    --no-install-recommends $extra >/dev/null 2>&1 || echo "setup: going on without$extra (optional)" >&2
