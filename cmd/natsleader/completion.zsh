#compdef natsleader

_natsleader() {
    local -a words_now options
    words_now=("${(@)words[2,CURRENT]}")
    options=("${(@f)$("${words[1]}" --completion-bash "${(@)words_now}" 2>/dev/null)}")
    options=("${(@)options:#}")
    if (( ${#options} )); then
        compadd -a options
    else
        _files
    fi
}

if [ "${funcstack[1]}" = "_natsleader" ]; then
    _natsleader "$@"
else
    compdef _natsleader natsleader
fi
