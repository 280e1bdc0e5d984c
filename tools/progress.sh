# Sourced: run commands with their output in a log, and show meanwhile that they are at work.

readonly progress_seconds=${PROGRESS_SECONDS:-10} # from line to line, where there is no terminal

# run COMMAND...: with its output in $log and its progress shown under $label; on failure show the
# log's end. The command stays in the foreground, where Ctrl-C reaches it.
run() {
    local failed=0
    progress 9>&- &
    ticker=$!
    "$@" </dev/null >>"$log" 2>&1 || failed=$?
    stop_progress
    if [ "$failed" != 0 ]; then tail -n 15 "$log" | sed 's/^/  | /' >&2; fi
    return "$failed"
}

stop_progress() {
    [ -n "${ticker:-}" ] || return 0
    # By KILL: ended otherwise before it is well begun, it carries out the installer's own trap, and
    # removes what that still needs.
    kill -KILL "$ticker" 2>/dev/null || true
    wait "$ticker" 2>/dev/null || true
    ticker=
    if [ -t 1 ]; then printf '\r\033[K'; fi
}

# How long it has taken, and the log's last line: one line that is written over on a terminal, else a
# line every few seconds. Ends with the installer, even if that is killed.
progress() {
    local begin=$SECONDS words
    while pause && kill -0 $$ 2>/dev/null; do
        words="$label ($((SECONDS - begin)) s) $(last_line)"
        if [ -t 1 ]; then
            printf '\r\033[K%s' "${words:0:$(columns) - 1}"
        else
            printf '%s\n' "$words"
        fi
    done
}

pause() { # holds no pipe open that somebody reads to its end
    if [ -t 1 ]; then sleep 0.5; else sleep "$progress_seconds" >/dev/null 2>&1; fi
}

# Without the control characters that draw progress bars.
last_line() {
    tail -c 2000 "$log" | tr '\r' '\n' | tr -cd '[:print:]\n' | sed '/^ *$/d' | tail -n 1 | cut -c 1-160
}

columns() {
    local size
    size=$(stty size </dev/tty 2>/dev/null) && echo "${size#* }" || echo 80
}
