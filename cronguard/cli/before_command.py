"""The words of a subcommand end at --, and what follows is a command with options of its own."""

from typing import Any

from typer.core import TyperCommand

from cronguard.errors import BadInput


class EndsBeforeCommand(TyperCommand):
    """Options may stand after NAME and SUBJECT here, so without -- those of the command would be taken for ours."""

    def parse_args(self, context: Any, words: list[str]) -> list[str]:
        is_plain = "--" not in words
        left = super().parse_args(context, words)
        if is_plain and (command := context.params.get("command")):
            usage = " ".join(part.strip("[]{}") for part in self.collect_usage_pieces(context) if part != "[OPTIONS]")
            raise BadInput(f"before the command {command[0]!a} put --; type: {context.command_path} {usage}")
        return left
