"""Completions for bash, zsh and fish, as static files: a TAB must not start the program."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence

from tools.command_tree import Command, Option

# What stands for a value in the help, and the words or files that it may be.
WORDS = {
    "CADENCE": ("minute", "hour", "day", "week", "month", "quarter", "year", "run"),
    "PERIOD": ("current", "previous"),
    "WHEN": ("never",),
}
FILES, DIRECTORIES, ZONES = ("FILE",), ("DIR",), ("ZONE",)


def words_of(option: Option) -> tuple[str, ...]:
    """The words that may be the option's value, as far as they can be listed."""
    return option.alternatives or WORDS.get(option.metavar or "", ())


def _summary(text: str) -> str:
    """The first sentence, or the first clause of a long one, without a full stop."""
    first = re.split(r"\. ", text)[0].rstrip(".")
    return first if len(first) <= 80 else re.split(r"[:;] ", first)[0]


# --------------------------------------------------------------------------- bash

_BASH = """\
# bash completion for cronguard. Made by tools/generate.py: do not edit.

# The options of each command; one that takes a value ends in =.
_cronguard_options()
{
    case $1 in
@OPTIONS@
    esac
}

# How many words of its own each command has before one that it is put in front of.
_cronguard_before()
{
    case $1 in
@BEFORE@
    esac
}

# Sets COMPREPLY to what compgen makes of its arguments and of the word at the cursor.
_cronguard_reply()
{
    local IFS=$'\\n'
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
@VALUES@
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
        _cronguard_reply -W "${word// /$'\\n'}"
    elif [[ ! $command ]]; then
        _cronguard_reply -W @COMMANDS@
    elif [[ $before == 0 ]]; then
        _cronguard_command "$COMP_CWORD"
    fi
}

complete -F _cronguard cronguard
"""


def bash(commands: Sequence[Command]) -> str:
    return _filled(
        _BASH,
        OPTIONS="\n".join(f"        {found.name or repr('')}) echo '{_bash_options(found)}' ;;" for found in commands),
        VALUES="\n".join(_bash_values(commands)),
        COMMANDS=_bash_list([found.name for found in commands if found.name]),
        BEFORE="\n".join(f"        {found.name}) echo {found.words_before} ;;" for found in _prefixes(commands)),
    )


def _bash_options(command: Command) -> str:
    return " ".join(f"{name}=" if option.metavar else name for option in command.options for name in option.names)


def _bash_values(commands: Sequence[Command]) -> Iterator[str]:
    """One option may take different things of different commands: --every of run, and of supervise."""
    actions: dict[tuple[str, str], list[str]] = {}
    for command in commands:
        for option in command.options:
            if action := _bash_action(option):
                actions.setdefault((option.long, action), []).append(f"'{command.name} {option.long}'")
    for (_, action), places in actions.items():
        yield f"        {' | '.join(places)}) {action} ;;"


def _bash_action(option: Option) -> str:
    if words := words_of(option):
        return f"_cronguard_reply -W {_bash_list(words)}"
    actions = {FILES: "_cronguard_files -f", DIRECTORIES: "_cronguard_files -d"}
    return next((action for metavars, action in actions.items() if option.metavar in metavars), "")


def _bash_list(words: Sequence[str]) -> str:
    return "$'" + "\\n".join(words) + "'"


# --------------------------------------------------------------------------- zsh

_ZSH = """\
#compdef cronguard
# zsh completion for cronguard. Made by tools/generate.py: do not edit.

_cronguard() {
  local curcontext="$curcontext" state
  local -a line subcommands
  subcommands=(
@COMMANDS@
  )
  _arguments -C -S : \\
@OPTIONS@ \\
    '1: :->command' \\
    '*:: :->arguments' && return

  case $state in
    command) _describe -t commands 'cronguard command' subcommands ;;
    arguments)
      curcontext="${curcontext%:*:*}:cronguard-$line[1]:"
      case $line[1] in
@CASES@
      esac ;;
  esac
}

_cronguard "$@"
"""


def zsh(commands: Sequence[Command]) -> str:
    itself, *others = commands
    return _filled(
        _ZSH,
        COMMANDS="\n".join(f"    {_quoted(f'{found.name}:{_summary(found.help)}')}" for found in others),
        OPTIONS=" \\\n".join(f"    {_zsh_option(option)}" for option in itself.options),
        CASES="\n".join(map(_zsh_case, others)),
    )


def _zsh_case(command: Command) -> str:
    lines = [*map(_zsh_option, command.options), *_zsh_arguments(command)]
    specifications = " \\\n".join(f"            {line}" for line in lines)
    return f"        {command.name})\n          _arguments -S : \\\n{specifications} ;;"


def _zsh_option(option: Option) -> str:
    what = re.sub(r"([][:\\])", r"\\\1", _summary(option.help))
    value = f":{option.metavar.replace('|', ' or ')}:{_zsh_action(option)}" if option.metavar else ""
    long, short = ("=", "+") if option.metavar else ("", "")
    names = [*(name + short for name in option.shorts), option.long + long]
    if len(names) == 1:
        return _quoted(f"{names[0]}[{what}]{value}")
    return f"'({' '.join(option.names)})'{{{','.join(names)}}}{_quoted(f'[{what}]{value}')}"


def _zsh_action(option: Option) -> str:
    if words := words_of(option):
        return f"({' '.join(words)})"
    actions = {FILES: "_files", DIRECTORIES: "_files -/", ZONES: "_time_zone"}
    return next((action for metavars, action in actions.items() if option.metavar in metavars), " ")


def _zsh_arguments(command: Command) -> list[str]:
    own = command.arguments[: command.words_before] if command.runs_a_command else command.arguments
    named = ((number, "::" if name.startswith("[") else ":", name) for number, name in enumerate(own, 1))
    words = [_quoted(f"{number}{optional}{name.strip('[]')}: ") for number, optional, name in named]
    if command.runs_a_command:
        to_it = f"(( CURRENT > {len(own)} )) && shift {len(own)} words && (( CURRENT -= {len(own)} ))"
        rest = f"{{ {to_it}; _normal }}" if own else " _normal"
        words += [f"'(-){len(own) + 1}:command: _command_names -e'", f"'*::argument:{rest}'"]
    return words


# --------------------------------------------------------------------------- fish

_FISH = """\
# fish completion for cronguard. Made by tools/generate.py: do not edit.

# Prints what follows the options of @PREFIXES@ in these words, a word a line; fails where nothing does.
function __cronguard_rest
    argparse --stop-nonopt @SPECIFICATIONS@ -- $argv 2>/dev/null
    and test (count $argv) -gt 0; and printf '%s\\n' $argv
end

# Prints the command that cronguard is put in front of, up to the cursor; fails where none is begun.
# Where words of its own stand before that, it begins after a --.
function __cronguard_command
    set -l words (commandline -opc) (commandline -ct)
    if contains -- "$words[2]" @OTHERS@
        set -l at (contains -i -- -- $words); and test $at -lt (count $words); or return 1
        printf '%s\\n' $words[(math $at + 1)..-1]
        return 0
    end
    contains -- "$words[2]" @PREFIXES@; and test (count $words) -gt 2; or return 1
    set -l rest (__cronguard_rest $words[3..-1]); or return 1
    not string match -q -- '-*' $rest[1]; and printf '%s\\n' $rest
end

function __cronguard_complete_command
    set -l words (__cronguard_command); and complete -C "$words"
end

# Whether the cursor is where options of this command may stand.
function __cronguard_at -a command
    set -l words (commandline -opc)
    test "$words[2]" = $command; and not contains -- -- $words; or return 1
    not contains -- $command @PREFIXES@; or test (count $words) -eq 2; or not __cronguard_rest $words[3..-1] >/dev/null
end

complete -c cronguard -f
@LINES@
"""


def fish(commands: Sequence[Command]) -> str:
    prefixes = [found for found in _prefixes(commands) if not found.words_before]
    others = [found for found in _prefixes(commands) if found.words_before]
    options = {option.long: option for prefix in prefixes for option in prefix.options}
    return _filled(
        _FISH,
        PREFIXES=" ".join(prefix.name for prefix in prefixes),
        OTHERS=" ".join(other.name for other in others),
        SPECIFICATIONS=" ".join(map(_fish_specification, options.values())),
        LINES="\n".join(_fish_lines(commands)),
    )


def _fish_specification(option: Option) -> str:
    short = next((f"{name[1:]}/" for name in option.shorts), "")
    return f"{short}{option.long[2:]}" + ("=" if option.metavar else "")


def _fish_lines(commands: Sequence[Command]) -> Iterator[str]:
    itself, *others = commands
    first = "-n __fish_use_subcommand"
    for command in others:
        yield f"complete -c cronguard {first} -a {command.name} -d {_fish_quoted(_summary(command.help))}"
    yield from (f"complete -c cronguard {first} {_fish_option(option)}" for option in itself.options)
    for command in others:
        here = f"-n '__cronguard_at {command.name}'"
        yield from (f"complete -c cronguard {here} {_fish_option(option)}" for option in command.options)
    yield "complete -c cronguard -n __cronguard_command -x -a '(__cronguard_complete_command)'"


def _fish_option(option: Option) -> str:
    names = " ".join([*(f"-s {name[1:]}" for name in option.shorts), f"-l {option.long[2:]}"])
    return f"{names}{_fish_value(option)} -d {_fish_quoted(_summary(option.help))}"


def _fish_value(option: Option) -> str:
    if not option.metavar:
        return ""
    if words := words_of(option):
        return f" -x -a '{' '.join(words)}'"
    if option.metavar in DIRECTORIES:
        return " -x -a '(__fish_complete_directories)'"
    return " -r -F" if option.metavar in FILES else " -x"


# --------------------------------------------------------------------------- all of them


def _prefixes(commands: Sequence[Command]) -> list[Command]:
    """The commands that are put in front of others."""
    return [command for command in commands if command.runs_a_command]


def _filled(template: str, **parts: str) -> str:
    replaced: Callable[[re.Match[str]], str] = lambda match: parts[match[1]]  # noqa: E731
    return re.sub(r"@([A-Z]+)@", replaced, template)


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"


def _fish_quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
