# What a shell completes.
source <(windlass completion bash)
complete_line() {
    COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)) COMPREPLY=()
    _windlass windlass "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD - 1]}"
    echo "${COMPREPLY[@]}"
}
complete_line windlass pl
complete_line windlass playbook --syn
windlass completion zsh | head -1
windlass completion fish | grep -c playbook > /dev/null && echo fish
