# Completions of baton for bash.
_baton() {
    local IFS=$'\n'
    COMPREPLY=($(baton complete-words --at "$COMP_CWORD" -- "${COMP_WORDS[@]}" 2>/dev/null))
}
complete -o default -F _baton baton
