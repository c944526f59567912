"""How far a run is: a bar on a terminal, now and then a line in a log, nothing for a run of under two seconds."""

import sys
import threading
import time
from typing import TextIO

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

PATIENCE = 2.0  # s before anything is shown
LOG_PACE = 15.0  # s between lines where there is no terminal


class ProgressDisplay:
    """A progress callback `(done, total)` to use in a `with` block. Each run that it follows restarts the count."""

    def __init__(self, label: str, *, stream: TextIO | None = None) -> None:
        self._label = label
        self._stream = stream or sys.stderr
        self._terminal = self._stream.isatty()
        self._lock = threading.Lock()
        self._bar: Progress | None = None
        self._began = self._told = time.monotonic()
        self._done, self._total = 0, 0
        # A timer, because the first chunk (which compiles) may itself take longer than anyone's patience.
        self._timer = threading.Timer(PATIENCE, self._open_bar)
        self._timer.daemon = True

    def __enter__(self) -> "ProgressDisplay":
        """Start waiting."""
        if self._terminal:
            self._timer.start()
        return self

    def __exit__(self, *exception: object) -> None:
        """Leave the bar as it stands."""
        self._timer.cancel()
        with self._lock:
            self._total = 0  # a timer that has just fired must not open a bar now
            if self._bar is not None:
                self._bar.stop()

    def __call__(self, done: int, total: int) -> None:
        """Tell how many configurations are done."""
        with self._lock:
            if done == 0:
                self._began = time.monotonic()
            self._done, self._total = done, total
            if self._bar is not None:
                self._bar.update(self._bar.task_ids[0], completed=done, total=total, rate=self._rate())
            elif not self._terminal and done < total:
                self._log_line()

    def _open_bar(self) -> None:
        with self._lock:
            if self._total == 0:
                return
            columns = (
                TextColumn("{task.description}"),
                BarColumn(),
                TaskProgressColumn(),
                TextColumn("{task.completed:.0f} of {task.total:.0f}{task.fields[rate]}"),
                TimeRemainingColumn(),
            )
            self._bar = Progress(*columns, console=Console(file=self._stream), transient=False)
            self._bar.add_task(self._label, completed=self._done, total=self._total, rate=self._rate())
            self._bar.start()

    def _rate(self) -> str:
        elapsed = time.monotonic() - self._began
        return f", {self._done / elapsed:,.0f} a second" if self._done and elapsed > 0 else ", compiling"

    def _log_line(self) -> None:
        now = time.monotonic()
        first = self._told <= self._began
        if self._done == 0 or now - (self._began if first else self._told) < (PATIENCE if first else LOG_PACE):
            return
        left = (now - self._began) * (self._total - self._done) / self._done
        line = f"{self._label}: {self._done} of {self._total}{self._rate()}, about {left:.0f} s left"
        print(line, file=self._stream, flush=True)
        self._told = now
