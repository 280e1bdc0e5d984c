# Sourced by the installer: what has to hold before anything is downloaded, and how much that is.

readonly least_python=3.11

# In MB, as measured with tools/install on Debian 12, x86-64: what is downloaded; what it takes on the
# disk; and what it takes there in between, while pip unpacks and builds.
sizes_of_python_packages() {
    if [ "$1" = test ]; then echo "910 2500 4600"; else echo "650 1300 3300"; fi
}

# The same of Debian's packages, if none of them is there: downloaded, on the disk.
sizes_of_system_packages() {
    if [ "$1" = test ]; then echo "380 1800"; else echo "155 640"; fi
}

# at_least FOUND WANTED: of two versions.
at_least() {
    [ "$(printf '%s\n' "$1" "$2" | sort -V | head -n 1)" = "$2" ]
}

# Debian has venv and ensurepip in a package of their own, python3-venv, which apt installs; it is of
# no use where Debian's Python is too old.
check_python() {
    local offered
    if find_python >/dev/null; then return; fi
    has apt-get ||
        fail "no Python $least_python or newer with venv and ensurepip: set PYTHON to one"
    offered=$(apt-cache policy python3 2>/dev/null |
        sed -n 's/^ *Candidate: *\([0-9]*\.[0-9]*\).*/\1/p')
    [ -z "$offered" ] || at_least "$offered" "$least_python" ||
        fail "Python $least_python or newer is needed, and apt has $offered: set PYTHON to another"
}

# What takes most of the time and room of a first installation.
has_spark() {
    compgen -G '.venv/lib/python*/site-packages/pyspark' >/dev/null
}

# downloads_of PURPOSE MISSING: in a sentence.
downloads_of() {
    local python system
    read -r python _ <<<"$(sizes_of_python_packages "$1")"
    read -r system _ <<<"$(sizes_of_system_packages "$1")"
    echo -n "about $python MB of Python packages"
    if [ -n "$2" ]; then echo -n " and up to $system MB of Debian's"; fi
}

# check_room PURPOSE MISSING: what is about to be installed has room on the disks.
check_room() {
    local kept between system=0
    read -r _ kept between <<<"$(sizes_of_python_packages "$1")"
    if [ -n "$2" ]; then read -r _ system <<<"$(sizes_of_system_packages "$1")"; fi
    if [ "$system" != 0 ] && [ "$(stat -c %d .)" = "$(stat -c %d /)" ]; then
        between=$((between + system))
        kept=$((kept + system))
    fi
    check_disk . "$between" "the installation (of which $kept MB stay)"
    check_disk / "$system" "Debian's packages"
}

# check_disk PLACE MB WHAT
check_disk() {
    local free
    free=$(df -Pm "$1" | awk 'NR == 2 { print $4 }')
    [ "$free" -ge "$2" ] ||
        fail "$3 needs $2 MB of disk at $(realpath "$1"), where $free MB are free"
}

# apt_downloads PACKAGE...: how much, in brackets, as apt says it; nothing if it does not.
apt_downloads() {
    LC_ALL=C apt-get install --assume-no --no-install-recommends -o Debug::NoLocking=1 "$@" \
        2>/dev/null | sed -n 's/^Need to get \([0-9.,]* [kMG]\?B\).* of archives\.$/ (\1)/p' || true
}

# The package index answers, or pip says within seconds why not: it is asked for one small file.
check_index() {
    local one=$temporary/one.txt
    label="tools/install: asking the package index"
    awk '/^[^ ]/ { wanted = /^typing-extensions==/ } wanted' requirements.lock >"$one"
    run env TMPDIR="$temporary" .venv/bin/python -m pip --retries 1 --timeout 15 download \
        --disable-pip-version-check --no-input --no-deps --require-hashes --requirement "$one" \
        --dest "$temporary/asked" ||
        fail "pip cannot get packages: is there a network? A proxy is named by HTTPS_PROXY, another" \
            "index by PIP_INDEX_URL. See $log"
}
