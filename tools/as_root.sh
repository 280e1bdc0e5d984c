# Sourced: one way to do what needs root, whoever the caller is.

# as_root COMMAND...: run it directly if we are root, else through sudo.
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
