# Sourced, after as_root.sh: packages are installed for their programs, and start no services.

readonly policy_mark="made by rabbitmq-itc's tools/install"

# Debian starts a package's service as soon as it is installed, unless a policy file says no:
# forbid_services FILE. It says no only to an apt run by `without_services`. If the process that
# created it is killed, the next call to it restores the policy that was there before.
forbid_services() {
    local policy=$1 installer=$$
    if [ -e "$policy" ] && ! grep -q "$policy_mark" "$policy"; then
        as_root mv "$policy" "$policy.rabbitmq-itc"
    fi
    as_root tee "$policy.new" >/dev/null <<POLICY
#!/bin/sh
# $policy_mark, which removes it again
[ -z "\${RABBITMQ_ITC_INSTALLS:-}" ] || exit 101
started() { sed 's/.*) //' "/proc/\$1/stat" 2>/dev/null | cut -d ' ' -f 20; }
before=\$0.rabbitmq-itc
if [ "\$(started $installer)" != "$(started $installer)" ]; then
    if [ -e "\$before" ]; then
        mv "\$before" "\$0" && exec "\$0" "\$@"
    else
        rm -f "\$0"
    fi
fi
[ ! -x "\$before" ] || exec "\$before" "\$@"
exit 0
POLICY
    as_root chmod 755 "$policy.new"
    as_root mv "$policy.new" "$policy"
}

# started PID: when a process started, which tells it from a later one with the same number.
started() {
    sed 's/.*) //' "/proc/$1/stat" | cut -d ' ' -f 20
}

allow_services() {
    local policy=$1
    if [ -e "$policy" ] && grep -q "$policy_mark" "$policy"; then
        as_root rm -f "$policy"
    fi
    if [ -e "$policy.rabbitmq-itc" ]; then
        as_root mv "$policy.rabbitmq-itc" "$policy"
    fi
}

without_services() {
    as_root env RABBITMQ_ITC_INSTALLS=yes "$@"
}

# disable_services PACKAGE...: keep them from starting at boot, too; in the root that DPKG_ROOT
# names, if any. Fails if a unit stays enabled.
disable_services() {
    local package unit failed=0
    for package in "$@"; do
        for unit in $(units_of "$package"); do
            [ -n "$(links_to "$unit")" ] || continue
            # It expects to run in a package's script, and does nothing unless told of one.
            as_root env DPKG_ROOT="${DPKG_ROOT:-}" DPKG_MAINTSCRIPT_PACKAGE="$package" \
                deb-systemd-helper disable "$unit" || failed=1
            if [ -n "$(links_to "$unit")" ]; then
                echo "$unit is still enabled: systemctl disable $unit" >&2
                failed=1
            fi
        done
    done
    return "$failed"
}

units_of() {
    case $1 in
        rabbitmq-server) echo rabbitmq-server.service epmd.service epmd.socket ;;
        postgresql) echo postgresql.service ;;
    esac
}

# links_to UNIT: the links that start it at boot.
links_to() {
    find "${DPKG_ROOT:-}/etc/systemd/system" -path '*.wants/*' -name "$1" 2>/dev/null
}
