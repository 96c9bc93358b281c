#compdef baton
# Completions of baton for zsh.
_baton() {
    local -a found
    found=("${(@f)$(baton complete-words --at $((CURRENT - 1)) -- "${words[@]}" 2>/dev/null)}")
    if ((${#found[1]})); then compadd -a found; else _files; fi
}
compdef _baton baton
