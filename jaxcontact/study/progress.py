"""How far a run is: a bar on a terminal, now and then a line in a log, nothing for a run of under two seconds."""

import sys
import threading
import time
from typing import TextIO

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn

from jaxcontact.study.status import duration, pace

PATIENCE = 2.0  # s before anything is shown
LOG_PACE = 15.0  # s between lines where there is no terminal
_BAR, _LABEL = 10, 20  # the shortest bar and the longest label, in characters


class ProgressDisplay:
    """A progress callback `(done, total, failed)` to use in a `with` block. A count that falls is another run's."""

    def __init__(self, label: str, *, stream: TextIO | None = None) -> None:
        self._label = label
        self._stream = stream or sys.stderr
        self._terminal = self._stream.isatty()
        self._lock = threading.Lock()
        self._bar: Progress | None = None
        self._began = self._told = time.monotonic()
        self._begin_done = self._done = self._total = self._failed = 0
        self._compiling, self._room = True, 0
        # A timer, because the first chunk (which compiles) may itself take longer than anyone's patience.
        self._timer = threading.Timer(PATIENCE, self._open_bar)
        self._timer.daemon = True

    def __enter__(self) -> "ProgressDisplay":
        """Start waiting."""
        self._timer.start()
        return self

    def __exit__(self, *exception: object) -> None:
        """Leave the bar as it stands."""
        self._timer.cancel()
        with self._lock:
            self._total = 0  # a timer that has just fired must not open a bar now
            if self._bar is not None:
                self._bar.stop()

    def __call__(self, done: int, total: int, failed: int = 0) -> None:
        """Tell how many configurations are done, and how many of them did not finish."""
        with self._lock:
            begins = self._total == 0 or done < self._done
            if begins:  # one that goes on begins where it stopped
                self._compiling = True
            if begins or (self._compiling and done > self._done):  # what came with the first results is compilation
                self._began, self._begin_done = time.monotonic(), done
                self._compiling = begins
            self._done, self._total, self._failed = done, total, failed
            if self._bar is not None:
                self._bar.update(self._bar.task_ids[0], completed=done, total=total, words=self._fitting())
            elif not self._terminal and done < total:
                self._log_line()

    def _open_bar(self) -> None:
        with self._lock:
            if self._total == 0:
                return
            if not self._terminal:
                if self._done == self._begin_done and self._compiling:
                    print(f"{self._label}: {self._words()}", file=self._stream, flush=True)
                return
            columns = (
                TextColumn("{task.description}"),
                BarColumn(),
                TaskProgressColumn(),
                TextColumn("{task.fields[words]}"),
            )
            self._bar = Progress(*columns, console=Console(file=self._stream), transient=False)
            label = self._label if len(self._label) <= _LABEL else f"{self._label[: _LABEL - 1]}…"
            self._room = self._bar.console.width - len(label) - _BAR - len(" 100%  ")
            self._bar.add_task(label, completed=self._done, total=self._total, words=self._fitting())
            self._bar.start()

    def _words(self) -> str:
        """Done, rate, failures and time left."""
        elapsed, new = time.monotonic() - self._began, self._done - self._begin_done
        failed = f", {self._failed:,} failed" if self._failed else ""
        text = f"{self._done:,} of {self._total:,}"
        if new <= 0 or elapsed <= 0:
            return f"{text}{failed}, {'compiling' if self._compiling else 'running'}"
        left = duration(elapsed * (self._total - self._done) / new)
        return f"{text}, {pace(new / elapsed)}{failed}, about {left} left"

    def _fitting(self) -> str:
        """The words beside the bar; on a narrow terminal without the count, which the bar tells too."""
        words = self._words()
        return words if len(words) <= self._room else words.partition(", ")[2]

    def _log_line(self) -> None:
        now = time.monotonic()
        first = self._told <= self._began
        new = self._done > self._begin_done
        if not new or now - (self._began if first else self._told) < (PATIENCE if first else LOG_PACE):
            return
        print(f"{self._label}: {self._words()}", file=self._stream, flush=True)
        self._told = now
