# Sourced: one way to do what needs root, whoever calls.

# as_root COMMAND...: as it is for root, else through sudo.
as_root() {
    if [ "$(id -u)" = 0 ]; then
        "$@"
    elif [ -t 1 ]; then
        sudo "$@"
    else
        sudo -n "$@"  # nobody is there to type a password
    fi
}

can_be_root() {
    [ "$(id -u)" = 0 ] || command -v sudo >/dev/null
}
