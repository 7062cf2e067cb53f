# fish completion for cronguard. Made by tools/generate.py: do not edit.

# Prints what follows the options of run in these words, a word a line; fails where nothing does.
function __cronguard_rest
    argparse --stop-nonopt key= every= schedule= tz= period= scheduled-at= job-name= complete-by= start-by= extend-max= attempts= retry-delay= recoveries= exclusive= if-held= rerun force lease= beat-every= stop-grace= stall-after= skip-exit= on-silence= stragglers= expand quiet capture= dry-run dsn= dsn-file= state-dir= db-wait= config= h/help -- $argv 2>/dev/null
    and test (count $argv) -gt 0; and printf '%s\n' $argv
end

# Prints the command that cronguard is put in front of, up to the cursor; fails where none is begun.
function __cronguard_command
    set -l words (commandline -opc) (commandline -ct)
    test "$words[2]" = run; and test (count $words) -gt 2; or return 1
    set -l rest (__cronguard_rest $words[3..-1]); or return 1
    not string match -q -- '-*' $rest[1]; and printf '%s\n' $rest
end

function __cronguard_complete_command
    set -l words (__cronguard_command); and complete -C "$words"
end

# Whether the cursor is where options of this command may stand.
function __cronguard_at -a command
    set -l words (commandline -opc)
    test "$words[2]" = $command; and not contains -- -- $words; or return 1
    test $command != run; or test (count $words) -eq 2; or not __cronguard_rest $words[3..-1] >/dev/null
end

complete -c cronguard -f
complete -c cronguard -n __fish_use_subcommand -a run -d 'Run a command once per period, whoever and however many hosts fire it'
complete -c cronguard -n __fish_use_subcommand -a beat -d 'Say from inside a run that it gets on, and how far it is'
complete -c cronguard -n __fish_use_subcommand -a extend -d 'Move the run\'s own complete-by from inside it, as far as --extend-max of run allows'
complete -c cronguard -n __fish_use_subcommand -a init -d 'Create or upgrade the ledger\'s schema'
complete -c cronguard -n __fish_use_subcommand -a history -d 'List the latest runs: when, how they ended, how many firings were skipped'
complete -c cronguard -n __fish_use_subcommand -a show -d 'Show one run with its attempts and the firings that were skipped, and why'
complete -c cronguard -n __fish_use_subcommand -l version -d 'Print the version and exit'
complete -c cronguard -n __fish_use_subcommand -s h -l help -d 'Show this message and exit'
complete -c cronguard -n '__cronguard_at run' -l key -x -d 'The job\'s name, the same on every host'
complete -c cronguard -n '__cronguard_at run' -l every -x -a 'minute hour day week month quarter year run' -d 'Cadence: minute, hour, day, week, month, quarter, year, 15m, or run (day)'
complete -c cronguard -n '__cronguard_at run' -l schedule -x -d 'Cron expression: the period is that of the nominal tick'
complete -c cronguard -n '__cronguard_at run' -l tz -x -d 'IANA time zone of the calendar (the key\'s, else this host\'s)'
complete -c cronguard -n '__cronguard_at run' -l period -x -a 'current previous' -d 'Run this period: a label, current or previous'
complete -c cronguard -n '__cronguard_at run' -l scheduled-at -x -d 'The nominal time, RFC 3339, such as 2026-11-30T06:00:00Z'
complete -c cronguard -n '__cronguard_at run' -l job-name -x -d 'A Kubernetes Job\'s name, which tells the nominal time'
complete -c cronguard -n '__cronguard_at run' -l complete-by -x -a 'never' -d 'When it must be over: 15m, 07:00, an instant, or never (one cadence)'
complete -c cronguard -n '__cronguard_at run' -l start-by -x -a 'never' -d 'Later than that, do not start: the same forms (none)'
complete -c cronguard -n '__cronguard_at run' -l extend-max -x -d 'How much later the command may make its complete-by, in all; 0: not at all [0]'
complete -c cronguard -n '__cronguard_at run' -l attempts -x -d 'Tries of a command that fails, made in place [1]'
complete -c cronguard -n '__cronguard_at run' -l retry-delay -x -d 'Pause before the next try; doubles each time, with jitter [30s]'
complete -c cronguard -n '__cronguard_at run' -l recoveries -x -d 'How often a run whose holder died may be run again; 0: never [3]'
complete -c cronguard -n '__cronguard_at run' -l exclusive -x -a 'key period' -d 'What excludes what: key (one run of the key) or period [key]'
complete -c cronguard -n '__cronguard_at run' -l if-held -x -a 'skip wait' -d 'Held by another: skip, or wait (stand by and take over) [skip]'
complete -c cronguard -n '__cronguard_at run' -l rerun -d 'Run although this period failed or ran out of time'
complete -c cronguard -n '__cronguard_at run' -l force -d 'With --rerun: also although it succeeded'
complete -c cronguard -n '__cronguard_at run' -l lease -x -d 'How long a holder that is silent keeps its run [60s]'
complete -c cronguard -n '__cronguard_at run' -l beat-every -x -d 'How often the lease is renewed (a sixth of it)'
complete -c cronguard -n '__cronguard_at run' -l stop-grace -x -d 'Between asking the command to stop and killing it [8s]'
complete -c cronguard -n '__cronguard_at run' -l stall-after -x -d 'Stopped when it neither says anything nor calls cronguard beat so long (never)'
complete -c cronguard -n '__cronguard_at run' -l skip-exit -x -d 'Exit code where nothing was to be done [0]'
complete -c cronguard -n '__cronguard_at run' -l on-silence -x -a 'freeze kill continue' -d 'No word from the ledger for a lease'
complete -c cronguard -n '__cronguard_at run' -l stragglers -x -a 'kill wait leave' -d 'Processes that the command leaves behind'
complete -c cronguard -n '__cronguard_at run' -l expand -d 'Replace {period}, {period_start}, {period_end}, {key}, {token} in arguments'
complete -c cronguard -n '__cronguard_at run' -l quiet -d 'Hold the output back and print it only if the command fails'
complete -c cronguard -n '__cronguard_at run' -l capture -x -d 'Bytes of output to remember, half each of start and end; 0: none [16k]'
complete -c cronguard -n '__cronguard_at run' -l dry-run -d 'Say what would happen now, and why; claim nothing'
complete -c cronguard -n '__cronguard_at run' -l dsn -x -d 'The ledger: postgresql://… or sqlite:///path (a file in the state directory)'
complete -c cronguard -n '__cronguard_at run' -l dsn-file -r -F -d 'A file that holds the DSN, such as a mounted secret'
complete -c cronguard -n '__cronguard_at run' -l state-dir -x -a '(__fish_complete_directories)' -d 'Where the local ledger and undelivered results lie'
complete -c cronguard -n '__cronguard_at run' -l db-wait -x -d 'How long to try to reach the ledger before giving up with 75 [30s]'
complete -c cronguard -n '__cronguard_at run' -l config -r -F -d 'The configuration file, instead of the usual places'
complete -c cronguard -n '__cronguard_at run' -s h -l help -d 'Show this message and exit'
complete -c cronguard -n '__cronguard_at beat' -l progress -x -d 'How far it is: 3/10, 40% or 3'
complete -c cronguard -n '__cronguard_at beat' -l note -x -d 'One line about where it is'
complete -c cronguard -n '__cronguard_at beat' -l dsn -x -d 'The ledger: postgresql://… or sqlite:///path (a file in the state directory)'
complete -c cronguard -n '__cronguard_at beat' -l dsn-file -r -F -d 'A file that holds the DSN, such as a mounted secret'
complete -c cronguard -n '__cronguard_at beat' -l state-dir -x -a '(__fish_complete_directories)' -d 'Where the local ledger and undelivered results lie'
complete -c cronguard -n '__cronguard_at beat' -l db-wait -x -d 'How long to try to reach the ledger before giving up with 75 [30s]'
complete -c cronguard -n '__cronguard_at beat' -l config -r -F -d 'The configuration file, instead of the usual places'
complete -c cronguard -n '__cronguard_at beat' -s h -l help -d 'Show this message and exit'
complete -c cronguard -n '__cronguard_at extend' -l dsn -x -d 'The ledger: postgresql://… or sqlite:///path (a file in the state directory)'
complete -c cronguard -n '__cronguard_at extend' -l dsn-file -r -F -d 'A file that holds the DSN, such as a mounted secret'
complete -c cronguard -n '__cronguard_at extend' -l state-dir -x -a '(__fish_complete_directories)' -d 'Where the local ledger and undelivered results lie'
complete -c cronguard -n '__cronguard_at extend' -l db-wait -x -d 'How long to try to reach the ledger before giving up with 75 [30s]'
complete -c cronguard -n '__cronguard_at extend' -l config -r -F -d 'The configuration file, instead of the usual places'
complete -c cronguard -n '__cronguard_at extend' -s h -l help -d 'Show this message and exit'
complete -c cronguard -n '__cronguard_at init' -l print-sql -d 'Print the SQL for a database administrator; change nothing'
complete -c cronguard -n '__cronguard_at init' -l dsn -x -d 'The ledger: postgresql://… or sqlite:///path (a file in the state directory)'
complete -c cronguard -n '__cronguard_at init' -l dsn-file -r -F -d 'A file that holds the DSN, such as a mounted secret'
complete -c cronguard -n '__cronguard_at init' -l state-dir -x -a '(__fish_complete_directories)' -d 'Where the local ledger and undelivered results lie'
complete -c cronguard -n '__cronguard_at init' -l db-wait -x -d 'How long to try to reach the ledger before giving up with 75 [30s]'
complete -c cronguard -n '__cronguard_at init' -l config -r -F -d 'The configuration file, instead of the usual places'
complete -c cronguard -n '__cronguard_at init' -s h -l help -d 'Show this message and exit'
complete -c cronguard -n '__cronguard_at history' -s n -l limit -x -d 'How many runs, newest first'
complete -c cronguard -n '__cronguard_at history' -l json -d 'Print JSON, with a schema field'
complete -c cronguard -n '__cronguard_at history' -l dsn -x -d 'The ledger: postgresql://… or sqlite:///path (a file in the state directory)'
complete -c cronguard -n '__cronguard_at history' -l dsn-file -r -F -d 'A file that holds the DSN, such as a mounted secret'
complete -c cronguard -n '__cronguard_at history' -l state-dir -x -a '(__fish_complete_directories)' -d 'Where the local ledger and undelivered results lie'
complete -c cronguard -n '__cronguard_at history' -l db-wait -x -d 'How long to try to reach the ledger before giving up with 75 [30s]'
complete -c cronguard -n '__cronguard_at history' -l config -r -F -d 'The configuration file, instead of the usual places'
complete -c cronguard -n '__cronguard_at history' -s h -l help -d 'Show this message and exit'
complete -c cronguard -n '__cronguard_at show' -l json -d 'Print JSON, with a schema field'
complete -c cronguard -n '__cronguard_at show' -l dsn -x -d 'The ledger: postgresql://… or sqlite:///path (a file in the state directory)'
complete -c cronguard -n '__cronguard_at show' -l dsn-file -r -F -d 'A file that holds the DSN, such as a mounted secret'
complete -c cronguard -n '__cronguard_at show' -l state-dir -x -a '(__fish_complete_directories)' -d 'Where the local ledger and undelivered results lie'
complete -c cronguard -n '__cronguard_at show' -l db-wait -x -d 'How long to try to reach the ledger before giving up with 75 [30s]'
complete -c cronguard -n '__cronguard_at show' -l config -r -F -d 'The configuration file, instead of the usual places'
complete -c cronguard -n '__cronguard_at show' -s h -l help -d 'Show this message and exit'
complete -c cronguard -n __cronguard_command -x -a '(__cronguard_complete_command)'
