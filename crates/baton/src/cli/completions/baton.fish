# Completions of baton for fish.
function __baton_words
    set -l before (commandline -opc)
    baton complete-words --at (count $before) -- $before (commandline -ct) 2>/dev/null
end
complete -c baton -a '(__baton_words)'
