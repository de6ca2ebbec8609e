#!/bin/sh
# install.sh: fetches a release of Windlass, verifies its checksum, and installs the program.
#
#   WINDLASS_RELEASE   address or directory of the release's files; by default, where this script lies
#   WINDLASS_PREFIX    /usr/local for root, otherwise ~/.local
#
# The checksum guards against broken downloads. No release is signed, and whoever can replace the files can also replace
# the checksum. If the place is not trusted, compare SHA256SUMS with that of your own build (tools/dist).
set -eu

fail() { echo "install.sh: $*" >&2; exit 1; }

release=${WINDLASS_RELEASE:-$(cd "$(dirname "$0")" && pwd)}
if [ -n "${WINDLASS_PREFIX:-}" ]; then prefix=$WINDLASS_PREFIX
elif [ "$(id -u)" = 0 ]; then prefix=/usr/local
else prefix=$HOME/.local; fi

[ "$(uname -s)" = Linux ] || fail "there is a program for Linux only, and this is $(uname -s)"
case $(uname -m) in
  x86_64 | aarch64) architecture=$(uname -m) ;;
  arm64) architecture=aarch64 ;;
  *) fail "there is a program for x86_64 and aarch64, and this is $(uname -m)" ;;
esac

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM

# get NAME: a file of the release, into the work directory.
get() {
  case $release in
    http://* | https://*)
      if command -v curl > /dev/null; then curl -fsSL --retry 3 -o "$work/$1" "$release/$1"
      elif command -v wget > /dev/null; then wget -q -O "$work/$1" "$release/$1"
      else fail 'curl or wget is needed to fetch a release'; fi ;;
    *) cp "$release/$1" "$work/$1" ;;
  esac || fail "$release/$1 cannot be fetched; set WINDLASS_RELEASE to the address or directory of a release"
}

get SHA256SUMS
archive=$(sed -n "s/^[0-9a-f]\{64\}  \(windlass-[0-9][0-9A-Za-z.+-]*-$architecture-linux\.tar\.gz\)$/\1/p" "$work/SHA256SUMS")
[ "$(echo "$archive" | wc -w)" = 1 ] || fail "SHA256SUMS of $release does not name one archive for $architecture"
get "$archive"
(cd "$work" && grep "  $archive\$" SHA256SUMS | sha256sum -c - > /dev/null) || fail "$archive differs from its checksum; nothing was installed"
tar -xzf "$work/$archive" -C "$work"
unpacked=$work/${archive%.tar.gz}

mkdir -p "$prefix/bin" "$prefix/share/man/man1" "$prefix/share/bash-completion/completions"
# A running program cannot be overwritten, but it can be replaced.
cp "$unpacked/windlass" "$prefix/bin/.windlass.new"
chmod 755 "$prefix/bin/.windlass.new"
mv -f "$prefix/bin/.windlass.new" "$prefix/bin/windlass"
cp "$unpacked"/man/*.1 "$prefix/share/man/man1"
cp "$unpacked/completions/windlass" "$prefix/share/bash-completion/completions"
"$prefix/bin/windlass" --version
echo "installed in $prefix/bin"
case :$PATH: in *":$prefix/bin:"*) ;; *) echo "add $prefix/bin to PATH" ;; esac
