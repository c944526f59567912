"""The command `jaxcontact`: reads what a person typed, calls the library, prints. Heavy imports wait until needed."""

import os
import sys
from collections.abc import Sequence

from jaxcontact.errors import InputError

BAD_INPUT, INTERRUPTED = 2, 130


class Stopped(Exception):
    """A run that ended before its time, with all that it had computed saved; the text says how to go on."""

    def __init__(self, text: str, code: int) -> None:
        super().__init__(text)
        self.code = code


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code: 0, 2 for bad input or a full disk, 130 for Ctrl-C."""
    from jaxcontact.cli.words import parse

    argv = sys.argv[1:] if argv is None else list(argv)
    try:
        arguments = parse(argv)
        arguments.command(arguments)
        sys.stdout.flush()
        return 0
    except SystemExit as stop:  # --help and --version
        return int(stop.code or 0)
    except InputError as error:
        return _complain(str(error), BAD_INPUT)
    except Stopped as stop:
        return _complain(str(stop), stop.code)
    except KeyboardInterrupt:
        return _complain("stopped; nothing more was saved", INTERRUPTED)
    except MemoryError:
        return _complain("not enough memory for so many configurations at a time; choose a smaller --chunk", BAD_INPUT)
    except BrokenPipeError:  # the reader of our output (head, less) has gone: that is no error
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return 0
    except OSError as error:  # a directory that may not be written, a full disk
        place = f"{error.filename}: " if error.filename else ""
        return _complain(f"{place}{error.strerror or error}", BAD_INPUT)


def _complain(message: str, code: int) -> int:
    print(f"jaxcontact: {message}", file=sys.stderr)
    return code
