"""klogtool help."""

from __future__ import annotations

import click

from klogtool.cli import commands


@commands.command("help")
@click.argument("words", nargs=-1, metavar="[COMMAND]")
@click.pass_context
def command(ctx: click.Context, /, words: tuple[str, ...]) -> None:
    """Show the help of a command: `klogtool help salvage` is the same as `klogtool salvage --help`.

    \b
    Examples:
      klogtool help salvage
      klogtool help fleet plan

    Exit status: 0 done; 2 there is no such command.
    """
    assert ctx.parent is not None  # the group of this command
    target, context = ctx.parent.command, ctx.parent
    left = list(words)
    while left and isinstance(target, click.Group):
        name, inner, left = target.resolve_command(context, left)
        assert inner is not None  # otherwise resolve_command has failed
        context = click.Context(inner, info_name=name, parent=context, **inner.context_settings)
        target = inner
    if left:
        raise click.UsageError(f"'{' '.join(words)}' is no command.", ctx)
    click.echo(target.get_help(context))
