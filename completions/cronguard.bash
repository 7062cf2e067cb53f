# bash completion for cronguard. Made by tools/generate.py: do not edit.

# The options of each command; one that takes a value ends in =.
_cronguard_options()
{
    case $1 in
        '') echo '--version -h --help' ;;
        run) echo '--key= --every= --schedule= --tz= --period= --scheduled-at= --job-name= --complete-by= --start-by= --extend-max= --attempts= --retry-delay= --recoveries= --claim-within= --exclusive= --if-held= --rerun --force --accept-changed-steps --only-pending --catch-up= --catch-up-window= --lease= --lock= --beat-every= --stop-grace= --stall-after= --skip-exit= --on-silence= --stragglers= --expand --quiet --capture= --dry-run --dsn= --dsn-file= --state-dir= --db-wait= --durable --config= -h --help' ;;
        backfill) echo '--key= --from= --to= --only-missing --jobs= --keep-going --dry-run --rerun --force --every= --schedule= --tz= --complete-by= --extend-max= --attempts= --retry-delay= --recoveries= --exclusive= --lease= --lock= --beat-every= --stop-grace= --stall-after= --on-silence= --stragglers= --expand --quiet --capture= --dsn= --dsn-file= --state-dir= --db-wait= --durable --config= -h --help' ;;
        beat) echo '--progress= --note= --dsn= --dsn-file= --state-dir= --db-wait= --config= -h --help' ;;
        extend) echo '--dsn= --dsn-file= --state-dir= --db-wait= --config= -h --help' ;;
        step) echo '--complete-by= --once --attempts= --retry-delay= --stop-grace= --capture= --dsn= --dsn-file= --state-dir= --db-wait= --durable --config= -h --help' ;;
        settle) echo '--succeeded --again --reason= --dsn= --dsn-file= --state-dir= --db-wait= --config= -h --help' ;;
        once) echo '--period= --send-within= --released-on= --provider-idempotent --skip-exit= --dsn= --dsn-file= --state-dir= --db-wait= --durable --config= -h --help' ;;
        claim) echo '--period= --file= -0 --null --send-within= --provider-idempotent --tokens --dsn= --dsn-file= --state-dir= --db-wait= --durable --config= -h --help' ;;
        confirm) echo '--period= --file= -0 --null --dsn= --dsn-file= --state-dir= --db-wait= --durable --config= -h --help' ;;
        release) echo '--period= --file= -0 --null --dsn= --dsn-file= --state-dir= --db-wait= --durable --config= -h --help' ;;
        effects) echo '--period= --state= -n= --limit= --json --dsn= --dsn-file= --state-dir= --db-wait= --config= -h --help' ;;
        resolve) echo '--sent --released --reason= --period= --file= -0 --null --dsn= --dsn-file= --state-dir= --db-wait= --config= -h --help' ;;
        init) echo '--print-sql --app-role= --dsn= --dsn-file= --state-dir= --db-wait= --config= -h --help' ;;
        history) echo '-n= --limit= --json --dsn= --dsn-file= --state-dir= --db-wait= --config= -h --help' ;;
        show) echo '--json --dsn= --dsn-file= --state-dir= --db-wait= --config= -h --help' ;;
        status) echo '--watch --json --dsn= --dsn-file= --state-dir= --db-wait= --config= -h --help' ;;
        watch) echo '--exit-status --dsn= --dsn-file= --state-dir= --db-wait= --config= -h --help' ;;
        keys) echo '--json --dsn= --dsn-file= --state-dir= --db-wait= --config= -h --help' ;;
        stats) echo '--json --dsn= --dsn-file= --state-dir= --db-wait= --config= -h --help' ;;
        reset) echo '--reason= -y --yes --dsn= --dsn-file= --state-dir= --db-wait= --config= -h --help' ;;
        cancel) echo '--reason= -y --yes --dsn= --dsn-file= --state-dir= --db-wait= --config= -h --help' ;;
        stop) echo '--reason= -y --yes --dsn= --dsn-file= --state-dir= --db-wait= --config= -h --help' ;;
        pause) echo '--reason= -y --yes --dsn= --dsn-file= --state-dir= --db-wait= --config= -h --help' ;;
        resume) echo '--reason= -y --yes --dsn= --dsn-file= --state-dir= --db-wait= --config= -h --help' ;;
        prune) echo '--keep= --keep-last= --dry-run --dsn= --dsn-file= --state-dir= --db-wait= --config= -h --help' ;;
        supervise) echo '--every= --key= --dry-run --json --exit-status --prune --metrics= --on-request= --dsn= --dsn-file= --state-dir= --db-wait= --durable --config= -h --help' ;;
        doctor) echo '--cron --json --dsn= --dsn-file= --state-dir= --db-wait= --config= -h --help' ;;
        drill) echo '--replicas= --rounds= --only= --within= --clean --json --dsn= --dsn-file= --state-dir= --db-wait= --config= -h --help' ;;
    esac
}

# How many words of its own each command has before one that it is put in front of.
_cronguard_before()
{
    case $1 in
        run) echo 0 ;;
        backfill) echo 0 ;;
        step) echo 1 ;;
        once) echo 2 ;;
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

# The value of an option of a command.
_cronguard_value()
{
    case "$1 $2" in
        'run --every' | 'backfill --every') _cronguard_reply -W $'minute\nhour\nday\nweek\nmonth\nquarter\nyear\nrun' ;;
        'run --period') _cronguard_reply -W $'current\nprevious' ;;
        'run --complete-by' | 'backfill --complete-by' | 'step --complete-by') _cronguard_reply -W $'never' ;;
        'run --start-by') _cronguard_reply -W $'never' ;;
        'run --exclusive' | 'backfill --exclusive') _cronguard_reply -W $'key\nperiod' ;;
        'run --if-held') _cronguard_reply -W $'skip\nwait' ;;
        'run --lock' | 'backfill --lock') _cronguard_reply -W $'claim\nadvisory' ;;
        'run --on-silence' | 'backfill --on-silence') _cronguard_reply -W $'freeze\nkill\ncontinue' ;;
        'run --stragglers' | 'backfill --stragglers') _cronguard_reply -W $'kill\nwait\nleave' ;;
        'run --dsn-file' | 'backfill --dsn-file' | 'beat --dsn-file' | 'extend --dsn-file' | 'step --dsn-file' | 'settle --dsn-file' | 'once --dsn-file' | 'claim --dsn-file' | 'confirm --dsn-file' | 'release --dsn-file' | 'effects --dsn-file' | 'resolve --dsn-file' | 'init --dsn-file' | 'history --dsn-file' | 'show --dsn-file' | 'status --dsn-file' | 'watch --dsn-file' | 'keys --dsn-file' | 'stats --dsn-file' | 'reset --dsn-file' | 'cancel --dsn-file' | 'stop --dsn-file' | 'pause --dsn-file' | 'resume --dsn-file' | 'prune --dsn-file' | 'supervise --dsn-file' | 'doctor --dsn-file' | 'drill --dsn-file') _cronguard_files -f ;;
        'run --state-dir' | 'backfill --state-dir' | 'beat --state-dir' | 'extend --state-dir' | 'step --state-dir' | 'settle --state-dir' | 'once --state-dir' | 'claim --state-dir' | 'confirm --state-dir' | 'release --state-dir' | 'effects --state-dir' | 'resolve --state-dir' | 'init --state-dir' | 'history --state-dir' | 'show --state-dir' | 'status --state-dir' | 'watch --state-dir' | 'keys --state-dir' | 'stats --state-dir' | 'reset --state-dir' | 'cancel --state-dir' | 'stop --state-dir' | 'pause --state-dir' | 'resume --state-dir' | 'prune --state-dir' | 'supervise --state-dir' | 'doctor --state-dir' | 'drill --state-dir') _cronguard_files -d ;;
        'run --config' | 'backfill --config' | 'beat --config' | 'extend --config' | 'step --config' | 'settle --config' | 'once --config' | 'claim --config' | 'confirm --config' | 'release --config' | 'effects --config' | 'resolve --config' | 'init --config' | 'history --config' | 'show --config' | 'status --config' | 'watch --config' | 'keys --config' | 'stats --config' | 'reset --config' | 'cancel --config' | 'stop --config' | 'pause --config' | 'resume --config' | 'prune --config' | 'supervise --config' | 'doctor --config' | 'drill --config') _cronguard_files -f ;;
        'backfill --from') _cronguard_reply -W $'current\nprevious' ;;
        'backfill --to') _cronguard_reply -W $'current\nprevious' ;;
        'claim --file' | 'confirm --file' | 'release --file' | 'resolve --file') _cronguard_files -f ;;
        'effects --state') _cronguard_reply -W $'sending\nsent\nreleased\nunknown' ;;
        'supervise --metrics') _cronguard_files -f ;;
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
    local cur=${COMP_WORDS[COMP_CWORD]} command='' before='' option='' word i
    COMPREPLY=()
    for ((i = 1; i < COMP_CWORD; i++)); do
        word=${COMP_WORDS[i]}
        if [[ $before && ($word == -- || $before == 0 && $word != -*) ]]; then
            [[ $word == -- ]] && ((i++))
            _cronguard_command "$i"
            return
        elif [[ $word != -* && $command ]]; then
            before=${before:+$((before - 1))}
        elif [[ $word != -* ]]; then
            command=$word
            before=$(_cronguard_before "$command")
        elif [[ " $(_cronguard_options "$command") " == *" $word= "* ]]; then
            [[ ${COMP_WORDS[i + 1]} == '=' ]] && ((i++))
            ((++i >= COMP_CWORD)) && option=$word
        fi
    done
    [[ $option && $cur == '=' ]] && cur=''
    if [[ $option ]]; then
        _cronguard_value "$command" "$option"
    elif [[ $cur == -* ]]; then
        word=$(_cronguard_options "$command")
        word=${word//=/}
        _cronguard_reply -W "${word// /$'\n'}"
    elif [[ ! $command ]]; then
        _cronguard_reply -W $'run\nbackfill\nbeat\nextend\nstep\nsettle\nonce\nclaim\nconfirm\nrelease\neffects\nresolve\ninit\nhistory\nshow\nstatus\nwatch\nkeys\nstats\nreset\ncancel\nstop\npause\nresume\nprune\nsupervise\ndoctor\ndrill'
    elif [[ $before == 0 ]]; then
        _cronguard_command "$COMP_CWORD"
    fi
}

complete -F _cronguard cronguard
