# bash completion for cronguard. Made by tools/generate.py: do not edit.

# The options of each command; one that takes a value ends in =.
_cronguard_options()
{
    case $1 in
        '') echo '--version -h --help' ;;
        run) echo '--key= --every= --schedule= --tz= --period= --scheduled-at= --job-name= --complete-by= --start-by= --extend-max= --attempts= --retry-delay= --recoveries= --exclusive= --if-held= --rerun --force --lease= --beat-every= --stop-grace= --stall-after= --skip-exit= --on-silence= --stragglers= --expand --quiet --capture= --dry-run --dsn= --dsn-file= --state-dir= --db-wait= --config= -h --help' ;;
        beat) echo '--progress= --note= --dsn= --dsn-file= --state-dir= --db-wait= --config= -h --help' ;;
        extend) echo '--dsn= --dsn-file= --state-dir= --db-wait= --config= -h --help' ;;
        init) echo '--print-sql --dsn= --dsn-file= --state-dir= --db-wait= --config= -h --help' ;;
        history) echo '-n= --limit= --json --dsn= --dsn-file= --state-dir= --db-wait= --config= -h --help' ;;
        show) echo '--json --dsn= --dsn-file= --state-dir= --db-wait= --config= -h --help' ;;
    esac
}

# Sets COMPREPLY to what compgen makes of its arguments and of the word at the cursor.
_cronguard_reply()
{
    local IFS=$'\n'
    COMPREPLY=($(compgen "$@" -- "$cur"))
}

_cronguard_files()
{
    compopt -o filenames 2>/dev/null
    _cronguard_reply "$@"
}

# The value of an option.
_cronguard_value()
{
    case $1 in
        --every) _cronguard_reply -W $'minute\nhour\nday\nweek\nmonth\nquarter\nyear\nrun' ;;
        --period) _cronguard_reply -W $'current\nprevious' ;;
        --complete-by) _cronguard_reply -W $'never' ;;
        --start-by) _cronguard_reply -W $'never' ;;
        --exclusive) _cronguard_reply -W $'key\nperiod' ;;
        --if-held) _cronguard_reply -W $'skip\nwait' ;;
        --on-silence) _cronguard_reply -W $'freeze\nkill\ncontinue' ;;
        --stragglers) _cronguard_reply -W $'kill\nwait\nleave' ;;
        --dsn-file) _cronguard_files -f ;;
        --state-dir) _cronguard_files -d ;;
        --config) _cronguard_files -f ;;
    esac
}

# The command that cronguard is put in front of, whose name is word number $1.
_cronguard_command()
{
    if declare -F _comp_command_offset >/dev/null; then
        _comp_command_offset "$1"
    elif declare -F _command_offset >/dev/null; then
        _command_offset "$1"
    elif ((COMP_CWORD == $1)) && [[ $cur != */* ]]; then
        _cronguard_reply -c
    else
        _cronguard_files -f
    fi
}

_cronguard()
{
    local cur=${COMP_WORDS[COMP_CWORD]} command='' option='' word i
    COMPREPLY=()
    for ((i = 1; i < COMP_CWORD; i++)); do
        word=${COMP_WORDS[i]}
        if [[ $command == run && ($word == -- || $word != -*) ]]; then
            [[ $word == -- ]] && ((i++))
            _cronguard_command "$i"
            return
        elif [[ $word != -* ]]; then
            command=${command:-$word}
        elif [[ " $(_cronguard_options "$command") " == *" $word= "* ]]; then
            [[ ${COMP_WORDS[i + 1]} == '=' ]] && ((i++))
            ((++i >= COMP_CWORD)) && option=$word
        fi
    done
    [[ $option && $cur == '=' ]] && cur=''
    if [[ $option ]]; then
        _cronguard_value "$option"
    elif [[ $cur == -* ]]; then
        word=$(_cronguard_options "$command")
        word=${word//=/}
        _cronguard_reply -W "${word// /$'\n'}"
    elif [[ ! $command ]]; then
        _cronguard_reply -W $'run\nbeat\nextend\ninit\nhistory\nshow'
    elif [[ $command == run ]]; then
        _cronguard_command "$COMP_CWORD"
    fi
}

complete -F _cronguard cronguard
