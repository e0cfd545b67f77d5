# Sourced by the scripts beside it: Debian's packages, where they may be installed without asking anybody.
if [ "$(id -u)" = 0 ]; then
    as_root=""
elif command -v sudo >/dev/null 2>&1 && sudo -n true 2>/dev/null; then
    as_root="sudo -n"
else
    as_root="none"
fi

may_install() {
    [ "$as_root" != none ] && command -v apt-get >/dev/null 2>&1
}

# Say what is installed and why, and read the lists of packages.
begin_install() {
    echo "foretide: installing $1"
    $as_root apt-get update -qq
}

install_packages() {
    $as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@" >/dev/null
}
