"""Records the evidence that the documentation shows and the tests ask for. What goes where: tools/README.md."""

import argparse
import importlib
import inspect
import os
import sys
from pathlib import Path

sys.path.insert(1, str(Path(__file__).resolve().parents[1] / "workflow"))

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # small references: threads of NumPy's would wait for each other

TOOLS = (
    *("architectures", "attacks", "errors", "faults", "languages", "library", "measuring", "mutants", "neighbour"),
    *("pair", "regression"),
)


class Parser(argparse.ArgumentParser):
    """A parser that says in one line what is wrong."""

    def error(self, message: str) -> None:
        """End with that line."""
        sys.exit(f"{self.prog}: {message}; see {self.prog} --help")


def positive(text: str) -> int:
    """A number on the command line."""
    if not text.isdecimal() or int(text) == 0:
        raise argparse.ArgumentTypeError(f"{text} is not a positive integer")
    return int(text)


def for_argparse(text: str | None) -> str:
    """A help text as argparse wants it, which formats it: with each % doubled."""
    return (text or "").replace("%", "%%")


def parser() -> Parser:
    """`python tools TOOL COMMAND [NUMBER]`: the functions in COMMANDS of each module, with their own arguments."""
    top = Parser(prog="python tools", description=__doc__)
    tools = top.add_subparsers(required=True, metavar="TOOL")
    for name in TOOLS:
        module = importlib.import_module(f"record_{name}")
        about = inspect.getdoc(module)
        commands = tools.add_parser(name, help=for_argparse(about), description=about)
        commands = commands.add_subparsers(required=True, metavar="COMMAND")
        for command, function in module.COMMANDS.items():
            told = inspect.getdoc(function)
            one = commands.add_parser(command, help=for_argparse(told), description=told)
            for each in inspect.signature(function).parameters.values():
                one.add_argument(each.name, type=positive, nargs="?", default=each.default)
            one.set_defaults(function=function)
    return top


def main(arguments: list[str]) -> None:
    """Run what the arguments ask for; what is wrong ends it with one line."""
    from ladder.system.errors import LadderError

    asked = vars(parser().parse_args(arguments))
    try:
        asked.pop("function")(**asked)
    except LadderError as error:
        sys.exit(f"gemm-ladder: {error}")


if __name__ == "__main__":
    main(sys.argv[1:])
