function __natsleader_complete
    set -l words (commandline --tokenize --cut-at-cursor --current-process)
    set -l token (commandline --current-token --cut-at-cursor)
    set -l found (command $words[1] --completion-bash $words[2..] "$token" 2>/dev/null)
    if set -q found[1]
        printf '%s\n' $found
    else
        __fish_complete_path "$token"
    end
end
complete --command natsleader --erase
complete --command natsleader --no-files --arguments '(__natsleader_complete)'
